package priorityriver_test

import (
	"context"
	"fmt"
	"log"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority/memory"
	priorityriver "github.com/docpriority/priority/queue/river"
)

// ConvertArgs are the arguments of a job that converts a customer's document.
type ConvertArgs struct {
	Customer string `json:"customer"`
	File     string `json:"file"`
	Pages    int    `json:"pages"`
}

func (ConvertArgs) Kind() string { return "convert" }

type ConvertWorker struct {
	river.WorkerDefaults[ConvertArgs]
}

func (ConvertWorker) Work(_ context.Context, job *river.Job[ConvertArgs]) error {
	fmt.Println("converting", job.Args.File)
	return nil
}

// customerOf says whose job it is.
func customerOf(job *rivertype.JobInsertParams) (customer, document string, cost float64) {
	if args, ok := job.Args.(ConvertArgs); ok {
		return args.Customer, "", float64(args.Pages)
	}
	return "", "", 0 // another kind of job
}

// The middleware is all that a team adds.
func Example() {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, "postgres://localhost/app")
	if err != nil {
		log.Fatal(err)
	}
	store := new(memory.Store) // in a fleet: fleet.Join(redis, nil)
	workers := river.NewWorkers()
	river.AddWorker(workers, ConvertWorker{})

	middleware, err := priorityriver.New(store, customerOf)
	if err != nil {
		log.Fatal(err)
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Middleware: []rivertype.Middleware{middleware},
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 8}},
		Workers:    workers,
	})
	if err != nil {
		log.Fatal(err)
	}
	if err := client.Start(ctx); err != nil {
		log.Fatal(err)
	}
	if _, err := client.Insert(ctx, ConvertArgs{Customer: "acme", File: "invoice.pdf", Pages: 3}, nil); err != nil {
		log.Fatal(err)
	}
}
