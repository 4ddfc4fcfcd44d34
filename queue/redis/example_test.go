package priorityredis_test

import (
	"context"
	"log"
	"log/slog"

	"github.com/docpriority/priority"
	priorityredis "github.com/docpriority/priority/queue/redis"
	"github.com/redis/go-redis/v9"
)

// What these take as given is a team's own.
var (
	ctx                context.Context
	store              priority.Store // a *fleet.Member
	client             redis.UniversalClient
	documents          *priorityredis.Queue
	customer, document string
	body               []byte
	work               func(context.Context, []byte) error
)

func Example() {
	err := func() error {
		client := redis.NewClient(&redis.Options{Addr: "localhost:6379"}) // or a cluster's, or Sentinel's
		documents, err := priorityredis.Open(ctx, client, store, &priorityredis.Options{Workers: 8})
		if err != nil {
			return err
		}

		// The producer.
		if err := documents.Add(ctx, "acme", "invoice-7", []byte("…")); err != nil {
			return err
		}

		// The worker.
		return documents.Work(ctx, func(_ context.Context, customer, document string, body []byte) error {
			slog.Info("processing", "customer", customer, "document", document, "bytes", len(body))
			return nil
		})
	}()
	log.Fatal(err)
}

func ExampleQueue_Add() {
	err := func() error {
		documents, err := priorityredis.Open(ctx, client, store, nil)
		if err != nil {
			return err
		}
		err = documents.Add(ctx, customer, document, body)
		return err
	}()
	log.Fatal(err)
}

func ExampleQueue_Work() {
	err := func() error {
		return documents.Work(ctx, func(ctx context.Context, customer, document string, body []byte) error {
			return work(ctx, body)
		})
	}()
	log.Fatal(err)
}

func ExampleQueue_Retry() {
	err := func() error {
		letters, err := documents.Dead(ctx)
		if err != nil {
			return err
		}
		for _, letter := range letters {
			slog.Info("putting back", "customer", letter.Customer, "document", letter.Document, "reason", letter.Reason)
			if err := documents.Retry(ctx, letter); err != nil {
				return err
			}
		}
		return nil
	}()
	log.Fatal(err)
}
