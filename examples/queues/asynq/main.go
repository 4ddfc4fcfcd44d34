// Asynq puts documents into queues of asynq, one for each level, and serves them.
//
//	go run ./examples/queues/asynq            # who waits how long during a flood
//	go run ./examples/queues/asynq -h         # to produce and to work
//
// What to copy is in documents.go, produce.go and work.go.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var strict bool
	check := 100 * time.Millisecond
	return &program.Example{
		Queue: "asynq",
		Start: server.StartRedis,
		Call:  func(level, last priority.Level) string { return "queue " + queue.Name("documents", level, last) },
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&strict, "strict", strict, "work: level 1 while there is any; the last level starves")
			flags.DurationVar(&check, "check", check, "work: how often to look for documents while a worker is free")
		},
		Open: func(_ context.Context, c *program.Config) (program.Queue, error) {
			address, err := redis.ParseURL(c.URL)
			if err != nil {
				return nil, err
			}
			client := redis.NewClient(address)
			documents, err := Open(client, c.Store, &Options{c.Name, c.Workers, c.Limit, c.Backoff, c.Logger, strict, check})
			return connected{documents, client}, err
		},
	}
}

// connected is a queue with a client of its own.
type connected struct {
	*Documents
	client *redis.Client
}

func (c connected) Close() error { return c.client.Close() }
