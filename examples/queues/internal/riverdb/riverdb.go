// Package riverdb has what the program for River needs beside River: a pool, tables, a
// back-off that a flag says, and the command line's view of the queue.
package riverdb

import (
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"
)

// DB is a schema with River's tables, and a queue in it.
type DB struct {
	*program.Config
	Pool          *pgxpool.Pool
	Schema, Queue string
	Process       program.Process // set by Work
}

// Example returns the program for a queue.
func Example(queueIn func(*DB) (program.Queue, error)) *program.Example {
	schema := "documents"
	return &program.Example{
		Queue:    "River",
		Start:    server.StartPostgres,
		Confirms: 500 * time.Millisecond, // River does so every 50 ms
		Call:     func(level, last priority.Level) string { return fmt.Sprint("priority ", queue.River(level, last)) },
		Flags: func(flags *flag.FlagSet) {
			flags.StringVar(&schema, "schema", schema, "the PostgreSQL `schema` for River's tables")
		},
		Open: func(ctx context.Context, c *program.Config) (program.Queue, error) {
			db, err := Open(ctx, c, schema)
			if err != nil {
				return nil, err
			}
			return queueIn(db)
		},
	}
}

// Open connects, and creates River's tables if they are not there.
func Open(ctx context.Context, c *program.Config, schema string) (*DB, error) {
	address, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, err
	}
	address.MaxConns = max(address.MaxConns, int32(c.Workers)+4) // a worker's one, and River's own
	pool, err := pgxpool.NewWithConfig(ctx, address)
	if err != nil {
		return nil, err
	}
	for try := 1; ; try++ { // PostgreSQL may be starting again; a wrong address is said soon
		err := migrate(ctx, pool, schema)
		if err == nil {
			return &DB{c, pool, schema, strings.ToLower(c.Name), nil}, nil
		}
		if try == 5 || ctx.Err() != nil {
			pool.Close()
			return nil, fmt.Errorf("the tables in schema %s: %w", schema, err)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func migrate(ctx context.Context, pool *pgxpool.Pool, schema string) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Schema: schema})
	if err != nil {
		return err
	}
	if found, err := migrator.Validate(ctx, nil); err != nil || found.OK {
		return err
	}
	lock := fnv.New64a() // processes that start together: the others wait here, and find the tables
	lock.Write([]byte("river migrate " + schema))
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(lock.Sum64())); err != nil {
			return err
		}
		if _, err := pool.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+pgx.Identifier{schema}.Sanitize()); err != nil {
			return err
		}
		_, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
		return err
	})
}

// NextRetry has a job wait for the Backoff. River's rescuer asks even after the last try.
func (db *DB) NextRetry(row *rivertype.JobRow) time.Time {
	if len(db.Backoff) == 0 {
		return time.Now()
	}
	return time.Now().Add(db.Backoff[min(max(row.Attempt, 1), len(db.Backoff))-1])
}

// Remove deletes all jobs of the queue. River's tables stay.
func (db *DB) Remove(ctx context.Context) error {
	_, err := db.Pool.Exec(ctx, "DELETE FROM "+pgx.Identifier{db.Schema, "river_job"}.Sanitize()+" WHERE queue = $1", db.Queue)
	return err
}

// Close closes the pool.
func (db *DB) Close() error {
	db.Pool.Close()
	return nil
}
