// Redis puts documents into streams of Redis, or lists, one for each level, and serves them.
// With -h it says how to produce and to work.
package main

import (
	"context"
	"flag"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	priorityredis "github.com/docpriority/priority/queue/redis"
	"github.com/redis/go-redis/v9"
)

func main() { program.Main(example()) }

func example() *program.Example {
	var own priorityredis.Options
	return &program.Example{
		Queue: "Redis",
		Start: server.StartRedis,
		Call:  func(level, last priority.Level) string { return queue.Name("{documents}", level, last) },
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&own.Lists, "lists", false, "lists in the place of streams")
			flags.BoolVar(&own.Strict, "strict", false, "work: serve a level only while those before it are empty")
			flags.DurationVar(&own.Lease, "lease", 0, "work: after how long others get the document of a lost worker (default 30s)")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			address, err := redis.ParseURL(c.URL)
			if err != nil {
				return nil, err
			}
			client := redis.NewClient(address)
			own.Name, own.Workers, own.Limit, own.Backoff, own.Logger = c.Name, c.Workers, c.Limit, c.Backoff, c.Logger
			q, err := priorityredis.Open(ctx, client, c.Store, &own)
			if err != nil {
				_ = client.Close()
				return nil, err
			}
			return &program.Functions{
				OnProduce: q.Add,
				OnWork:    q.Work,
				OnDead:    program.IDs(q.Dead, func(l priorityredis.Letter) string { return l.Document }),
				OnRemove: func(ctx context.Context) error {
					keys, err := client.Keys(ctx, "{"+c.Name+"}-*").Result()
					if err != nil {
						return err
					}
					return client.Unlink(ctx, keys...).Err()
				},
				OnClose: func() { _ = client.Close() },
			}, nil
		},
	}
}
