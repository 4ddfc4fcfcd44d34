// River puts documents into a queue of River, in PostgreSQL, and serves them.
//
//	go run ./examples/queues/river            # who waits how long during a flood
//	go run ./examples/queues/river -h         # to produce and to work
//
// What to copy is in documents.go, produce.go and work.go.
package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	"github.com/jackc/pgx/v5/pgxpool"
)

func main() { program.Main(example()) }

func example() *program.Example {
	schema := "documents"
	var grace time.Duration
	return &program.Example{
		Queue: "River",
		Start: server.StartPostgres,
		Call:  func(level, last priority.Level) string { return fmt.Sprint("priority ", queue.River(level, last)) },
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&schema, "schema", schema, "the PostgreSQL `schema` for River's tables")
			flags.DurationVar(&grace, "grace", 0, "work: how long a shutdown waits for documents in hand (default to their end)")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			address, err := pgxpool.ParseConfig(c.URL)
			if err != nil {
				return nil, err
			}
			address.MaxConns = max(address.MaxConns, int32(c.Workers)+4) // a worker's one, and River's own
			pool, err := pgxpool.NewWithConfig(ctx, address)
			if err != nil {
				return nil, err
			}
			documents, err := Open(ctx, pool, c.Store, &Options{
				Schema: schema, Name: strings.ToLower(c.Name), Workers: c.Workers, Limit: c.Limit, Grace: grace, Backoff: c.Backoff, Logger: c.Logger,
			})
			if err != nil {
				pool.Close()
				return nil, err
			}
			return connected{documents, pool}, nil
		},
	}
}

// connected is a queue with its pool.
type connected struct {
	*Documents
	pool *pgxpool.Pool
}

func (c connected) Close() error {
	c.pool.Close()
	return c.Documents.Close()
}
