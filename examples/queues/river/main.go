// River sends a flood and two small customers' documents through River and shows
// the order in which a worker gets them. It starts a PostgreSQL of its own, or uses
// yours, in a schema of its own:
//
//	go run ./examples/queues/river [-url postgres://localhost/postgres]
//
// What to copy is in documents.go.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

func main() {
	url := flag.String("url", "", "the `address` of a PostgreSQL (default: one of its own)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *url, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "river:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, url string, out io.Writer) (err error) {
	if url == "" {
		own, err := server.StartPostgres(ctx)
		if err != nil {
			return err
		}
		defer own.Stop()
		url = own.URL
	}
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	schema, removeSchema, err := migrate(ctx, pool)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removeSchema()) }()

	store := new(memory.Store) // a fleet shares a priority.RedisStore
	last := store.Last()
	with, err := serve(ctx, pool, schema, store, "with", last)
	if err != nil {
		return err
	}
	without, err := serve(ctx, pool, schema, store, "without", 1) // one level for all, as if there were none
	if err != nil {
		return err
	}
	call := func(level priority.Level) string { return fmt.Sprint(queue.River(level, last)) }
	flood.Report(out, "River", call, with, without)
	return nil
}

// migrate creates River's tables in a schema of the example's own.
func migrate(ctx context.Context, pool *pgxpool.Pool) (schema string, remove func() error, err error) {
	schema = "priority_example_" + strings.ToLower(rand.Text())
	quoted := pgx.Identifier{schema}.Sanitize()
	if _, err := pool.Exec(ctx, "CREATE SCHEMA "+quoted); err != nil {
		return "", nil, err
	}
	remove = func() error {
		_, err := pool.Exec(context.Background(), "DROP SCHEMA "+quoted+" CASCADE") // after an interrupt too
		return err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{
		Schema: schema,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("create River's tables: %w", err), remove())
	}
	return schema, remove, nil
}

// serve sends all documents through a queue with as many levels, and returns them
// in the order in which the worker got them.
func serve(ctx context.Context, pool *pgxpool.Pool, schema string, store priority.Store, name string, last priority.Level) ([]string, error) {
	waiting, err := open(pool, schema, name, last)
	if err != nil {
		return nil, err
	}
	arriving := flood.Documents()
	for _, d := range arriving {
		if err := waiting.produce(ctx, store, d.Customer, d.String()); err != nil {
			return nil, err
		}
	}
	return flood.Collect(ctx, len(arriving), waiting.consume)
}
