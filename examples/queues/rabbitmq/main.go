// Rabbitmq puts documents into a queue of RabbitMQ with priorities, and serves them.
//
//	go run ./examples/queues/rabbitmq            # who waits how long during a flood
//	go run ./examples/queues/rabbitmq -h         # to produce and to work
//
// What to copy is in documents.go, work.go, connection.go and boot.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var own Options
	return &program.Example{
		Queue: "RabbitMQ",
		Start: server.StartRabbitMQ,
		// Of a classic queue, which keeps acknowledgements in memory until the next publish.
		Forgets: time.Second,
		Call: func(level, last priority.Level) string {
			return fmt.Sprint("priority ", queue.RabbitMQ(level, last, queue.RabbitMQMaxPriority(last)))
		},
		Flags: func(flags *flag.FlagSet) {
			flags.IntVar(&own.Losses, "losses", maxLosses, "work: a document that was lost with its worker, or its connection, as often is given up")
			flags.IntVar(&own.MaxLength, "max-length", 0, "`documents` that the queue takes (default all)")
			flags.BoolVar(&own.Quorum, "quorum", false, "a replicated queue, of RabbitMQ 4.0 or later")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			options := own
			options.Name, options.Workers, options.Limit = c.Name, c.Workers, c.Limit
			options.Backoff, options.Logger = c.Backoff, c.Logger
			return Open(ctx, c.URL, c.Store, &options)
		},
	}
}
