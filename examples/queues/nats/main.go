// Nats puts documents into a stream of NATS JetStream with a subject for each level,
// and serves them.
//
//	go run ./examples/queues/nats            # who waits how long during a flood
//	go run ./examples/queues/nats -h         # to produce and to work
//
// What to copy is in the other files: documents.go is the queue, produce.go and
// work.go are what producers and consumers do, with arrivals.go to look for work,
// and dead.go has the documents that were given up.
package main

import (
	"context"
	"flag"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
)

func main() { program.Main(example()) }

func example() *program.Example {
	options := Options{AckWait: 30 * time.Second, Replicas: 1}
	return &program.Example{
		Queue: "NATS",
		// Measured with one server of Debian's 2.9.10; of 2.10.29 it is nothing.
		Forgets: 500 * time.Millisecond,
		Start:   server.StartNATS,
		Call: func(level, last priority.Level) string {
			return "subject " + queue.NATSSubject("documents", level, last)
		},
		Flags: func(flags *flag.FlagSet) {
			flags.DurationVar(&options.AckWait, "ack-wait", options.AckWait, "a worker that is not heard of for so long is lost")
			flags.IntVar(&options.Replicas, "replicas", options.Replicas, "how many servers have each document")
			flags.BoolVar(&options.Strict, "strict", false, "always the first level that has documents; by weight otherwise")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			own := options
			own.Name, own.Workers, own.Limit, own.Backoff, own.Logger = c.Name, c.Workers, c.Limit, c.Backoff, c.Logger
			return Open(ctx, c.URL, c.Store, &own)
		},
	}
}
