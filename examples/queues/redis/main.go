// Redis puts documents into streams of Redis, or lists, one for each level, and
// serves them.
//
//	go run ./examples/queues/redis            # who waits how long during a flood
//	go run ./examples/queues/redis -h         # to produce and to work
//
// What to copy is documents.go, work.go, and the Lua files of streams or of lists.
package main

import (
	"context"
	"flag"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	"github.com/redis/go-redis/v9"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var own Options
	return &program.Example{
		Queue: "Redis",
		Start: server.StartRedis,
		Call: func(level, last priority.Level) string {
			return queue.Name("{documents}", level, last)
		},
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&own.Lists, "lists", false, "lists in the place of streams")
			flags.BoolVar(&own.Strict, "strict", false, "work: serve a level only while those before it are empty")
			flags.DurationVar(&own.Lease, "lease", 0, "work: after how long others get the document of a lost worker (default 30s)")
		},
		Open: func(ctx context.Context, config *program.Config) (program.Queue, error) {
			address, err := redis.ParseURL(config.URL)
			if err != nil {
				return nil, err
			}
			options := own
			options.Name, options.Workers, options.Limit = config.Name, config.Workers, config.Limit
			options.Backoff, options.Logger = config.Backoff, config.Logger
			client := redis.NewClient(address)
			documents, err := Open(ctx, client, config.Store, &options)
			if err != nil {
				_ = client.Close()
				return nil, err
			}
			return connected{documents, client}, nil
		},
	}
}

// connected is a queue with a client of its own.
type connected struct {
	*Documents
	client *redis.Client
}

func (c connected) Close() error { return c.client.Close() }
