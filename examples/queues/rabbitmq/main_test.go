package main

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/trial"
)

func TestMain(m *testing.M) { trial.Main(m, main) }

func TestAKilledBrokerLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.KilledBroker(t, tested(), flags...)
}

func TestACutConnectionLosesNoDocument(t *testing.T) {
	t.Parallel()
	trial.CutConnection(t, tested(), flags...)
}

func TestAKilledWorkersDocumentsAreServedByOthers(t *testing.T) {
	t.Parallel()
	trial.KilledWorker(t, tested(), flags...)
}

func TestAShutdownRepeatsNoDocument(t *testing.T) {
	t.Parallel()
	trial.ShutdownUnderLoad(t, tested(), flags...)
}

func TestAPoisonDocumentIsGivenUp(t *testing.T) {
	t.Parallel()
	trial.Poison(t, tested(), flags...)
}

func TestADocumentThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	trial.Killer(t, tested(), 3, append(flags, "-losses", "3")...)
}

// While a document is worked on, its connection is kept by heartbeats.
func TestALongDocumentIsBegunOnce(t *testing.T) {
	t.Parallel()
	e := tested()
	settings := "heartbeat = 1\n"
	if quorum {
		settings += "consumer_timeout = 1000\n" // from 4.3 on the consumer asks for more
	}
	e.Start = startWith(settings, "")
	trial.LongDocument(t, e, 4*time.Second, flags...)
}

func TestDocumentsComeOutByLevel(t *testing.T) {
	e := tested()
	var classes priority.Level = 11
	if quorum {
		classes = 28 // of RabbitMQ 4.3
	}
	trial.Order(t, e, shared(t), classes)
}

func TestAnUrgentDocumentOvertakes(t *testing.T) {
	trial.Overtaking(t, tested(), shared(t))
}

func TestTheBooksAreExactAfterRandomFaults(t *testing.T) {
	t.Parallel()
	trial.Soak(t, tested(), flags...)
}

// With quorumEnvironment set, the tests are of a quorum queue. PRIORITY_RABBITMQ has
// them run on another version: see package server.
const quorumEnvironment = "PRIORITY_RABBITMQ_QUORUM"

var quorum = os.Getenv(quorumEnvironment) != ""

var flags []string // of the workers

func init() {
	if quorum {
		flags = []string{"-quorum"}
	}
}

// tested is the example as the workers have it.
func tested() *program.Example {
	e := example()
	set := flag.NewFlagSet("", flag.PanicOnError)
	e.Flags(set)
	_ = set.Parse(flags)
	if quorum {
		e.Forgets = 0
	}
	return e
}

// shared is the address of a server that many tests share. It is not as patient as
// others with documents that come back to a full queue: 1 s instead of 3 minutes.
func shared(t *testing.T) string {
	t.Helper()
	e := tested()
	e.Start = startWith("", "-rabbit dead_letter_worker_publisher_confirm_timeout 1000")
	return trial.Shared(t, e)
}

func startWith(settings, arguments string) func(context.Context) (*server.Server, error) {
	return func(ctx context.Context) (*server.Server, error) {
		return server.StartRabbitMQWith(ctx, settings, arguments)
	}
}
