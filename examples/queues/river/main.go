// River puts customers' documents into River, in PostgreSQL, and works on them.
//
//	go run ./examples/queues/river            # who waits how long during a flood
//	go run ./examples/queues/river -h         # to produce and to work
package main

import (
	"context"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/riverdb"
	priorityriver "github.com/docpriority/priority/queue/river"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"
)

func main() { program.Main(example()) }

func example() *program.Example { return riverdb.Example(open) }

// args are of a job that works on a document.
type args struct {
	Customer string `json:"customer" river:"unique"`
	Document string `json:"document" river:"unique"`
	Body     []byte `json:"body"`
}

func (args) Kind() string { return "document" }

func customerOf(job *rivertype.JobInsertParams) (customer, document string, cost float64) {
	of := job.Args.(args)
	return of.Customer, of.Document, float64(len(of.Body))
}

func open(db *riverdb.DB) (program.Queue, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(ctx context.Context, job *river.Job[args]) error {
		return db.Process(ctx, job.Args.Customer, job.Args.Document, job.Args.Body)
	}))
	client, err := river.NewClient(riverpgxv5.New(db.Pool), &river.Config{
		Middleware: []rivertype.Middleware{priorityriver.New(db.Store, customerOf)},
		Queues:     map[string]river.QueueConfig{db.Queue: {MaxWorkers: db.Workers}},
		Workers:    workers, Schema: db.Schema, Logger: db.Logger, RetryPolicy: db, MaxAttempts: len(db.Backoff) + 1,
		FetchCooldown: 10 * time.Millisecond, // River's 100 ms leave workers idle between short documents
		JobTimeout:    db.Limit, RescueStuckJobsAfter: db.Limit + 10*time.Second, DiscardedJobRetentionPeriod: -1,
	})
	insert := func(ctx context.Context, customer, document string, body []byte) error {
		_, err := client.Insert(ctx, args{customer, document, body}, &river.InsertOpts{
			Queue:      db.Queue,
			UniqueOpts: river.UniqueOpts{ByArgs: true, ByQueue: true}, // an insert whose reply was lost may be repeated
		})
		return err
	}
	return &riverdb.Queue{DB: db, Client: client, Insert: insert}, err
}
