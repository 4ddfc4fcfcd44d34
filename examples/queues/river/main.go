// River puts customers' documents into River, in PostgreSQL, each with a priority, and works
// on them: a customer who sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/river -url postgres://localhost/app -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. River's tables have to be there: river migrate-up --database-url …
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"github.com/docpriority/priority/fleet"
	priorityriver "github.com/docpriority/priority/queue/river"
)

func main() {
	url := flag.String("url", "postgres://localhost/app", "the `address` of PostgreSQL, with River's tables")
	address := flag.String("redis", "localhost:6379", "the `address` of Redis, for the customers' counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *url, *address); err != nil {
		log.Fatal(err)
	}
}

// Convert is a job: to convert a customer's document.
type Convert struct {
	Customer string `json:"customer"`
	Document string `json:"document"`
}

func (Convert) Kind() string { return "convert" }

// customerOf says whose job it is. The module makes an id, and the cost is not known.
func customerOf(job *rivertype.JobInsertParams) (customer, document string, cost float64) {
	args, _ := job.Args.(Convert) // another kind of job has no customer
	return args.Customer, "", 0
}

func convert(_ context.Context, job *river.Job[Convert]) error {
	time.Sleep(20 * time.Millisecond) // the work; an error would have River try again
	fmt.Println(job.Args.Document)
	return nil
}

func run(ctx context.Context, url, address string) (err error) {
	redisClient := redis.NewClient(&redis.Options{Addr: address})
	defer redisClient.Close()
	store, err := fleet.Join(redisClient, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, store.Close(ctx))
	}()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(convert))
	middleware, err := priorityriver.New(store, customerOf)
	if err != nil {
		return err
	}
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{
		Middleware: []rivertype.Middleware{middleware}, // all that the module needs
		Queues:     map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 4}},
		Workers:    workers,
	})
	if err != nil {
		return err
	}
	for number := range 100 {
		if _, err := client.Insert(ctx, Convert{"archive", fmt.Sprint("archive-", number)}, nil); err != nil {
			return err
		}
	}
	if _, err := client.Insert(ctx, Convert{"clinic", "clinic-0"}, nil); err != nil {
		return err
	}
	go priorityriver.Settle(ctx, client, store)                      // calls Done for documents whose workers die at the last try
	if err := client.Start(context.WithoutCancel(ctx)); err != nil { // Stop ends it
		return err
	}
	<-ctx.Done()
	return client.Stop(context.WithoutCancel(ctx)) // waits for the documents in hand
}
