package main

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m, func() { program.Main(either()) }) }

func TestPromises(t *testing.T) { trial.Run(t, subject()) }

func TestPromisesInALoopOfATeamsOwn(t *testing.T) {
	s := subject()
	s.Example, s.Flags = either, append(s.Flags, "-team")
	t.Run("Team", func(t *testing.T) { trial.Run(t, s) }) // with names of its own
}

// With quorumEnvironment set, the tests are of a quorum queue. PRIORITY_RABBITMQ has
// them run on another version: see package server.
const quorumEnvironment = "PRIORITY_RABBITMQ_QUORUM"

var quorum = os.Getenv(quorumEnvironment) != ""

func subject() *trial.Subject {
	s := &trial.Subject{
		Example: example,
		More:    map[string][]string{"ADocumentThatKillsItsWorkersIsGivenUp": {"-losses", "3"}},
		Deaths:  3,
		Long:    4 * time.Second, // while a document is worked on, its connection is kept by heartbeats
	}
	heartbeat := "heartbeat = 1\n"
	if quorum {
		s.Flags = []string{"-quorum"}
		s.Classes = 28                           // of RabbitMQ 4.3
		heartbeat += "consumer_timeout = 1000\n" // from 4.3 on the consumer asks for more
		s.Example = func() *program.Example {
			e := example()
			e.Forgets = 0
			return e
		}
	}
	s.Start = func(promise string) func(context.Context) (*server.Server, error) {
		switch promise {
		case "":
			// It is not as patient as others with documents that come back to a full
			// queue: 1 s instead of 3 minutes.
			return startWith("", "-rabbit dead_letter_worker_publisher_confirm_timeout 1000")
		case "ALongDocumentIsBegunOnce":
			return startWith(heartbeat, "")
		}
		return server.StartRabbitMQ
	}
	return s
}

func startWith(settings, arguments string) func(context.Context) (*server.Server, error) {
	return func(ctx context.Context) (*server.Server, error) {
		return server.StartRabbitMQWith(ctx, settings, arguments)
	}
}
