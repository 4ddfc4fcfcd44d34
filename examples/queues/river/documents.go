package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
)

// job is a document as a job of River.
type job struct {
	Document string `json:"document"`
}

// Kind names the jobs in River's table.
func (job) Kind() string { return "document" }

// documents is a queue of River. Levels are the jobs' priorities.
type documents struct {
	pool   *pgxpool.Pool
	schema string                // with River's tables
	name   string                // of the queue
	last   priority.Level        // of all customers: store.Last()
	insert *river.Client[pgx.Tx] // works on nothing
}

func open(pool *pgxpool.Pool, schema, name string, last priority.Level) (*documents, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{Schema: schema, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, fmt.Errorf("open River: %w", err)
	}
	return &documents{pool, schema, name, last, client}, nil
}

// produce counts a customer's document and inserts a job for it with its level.
// With a transaction of your own, use InsertTx.
func (d *documents) produce(ctx context.Context, store priority.Store, customer, document string) error {
	decision, err := store.Next(ctx, customer)
	if err != nil {
		return err
	}
	return d.add(ctx, decision.Level, document)
}

func (d *documents) add(ctx context.Context, level priority.Level, document string) error {
	_, err := d.insert.Insert(ctx, job{document}, &river.InsertOpts{
		Queue:    d.name,
		Priority: queue.River(level, d.last),
	})
	if err != nil {
		return fmt.Errorf("insert %s: %w", document, err)
	}
	return nil
}

// consume has process work on one document at a time, until the context ends. If
// process fails, River tries the job again later, with its priority.
func (d *documents) consume(ctx context.Context, process func(document string) error) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(_ context.Context, j *river.Job[job]) error {
		return process(j.Args.Document)
	}))
	client, err := river.NewClient(riverpgxv5.New(d.pool), &river.Config{
		Schema:        d.schema,
		Queues:        map[string]river.QueueConfig{d.name: {MaxWorkers: 1}}, // in this process
		Workers:       workers,
		FetchCooldown: time.Millisecond, // at least this much between two fetches
		Logger:        slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("open River: %w", err)
	}
	running := context.WithoutCancel(ctx) // what is being worked on may be finished
	if err := client.Start(running); err != nil {
		return fmt.Errorf("start River: %w", err)
	}
	<-ctx.Done()
	if err := client.Stop(running); err != nil {
		return fmt.Errorf("stop River: %w", err)
	}
	return nil
}
