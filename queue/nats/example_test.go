package prioritynats_test

import (
	"context"
	"log"
	"log/slog"

	"github.com/docpriority/priority"
	prioritynats "github.com/docpriority/priority/queue/nats"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What these take as given is a team's own.
var (
	ctx                context.Context
	store              priority.Store // a *fleet.Member
	js                 jetstream.JetStream
	consumer           jetstream.Consumer
	documents          *prioritynats.Queue
	customer, document string
	body               []byte
	work               func(context.Context, []byte) error
)

// A new program makes its streams, its consumers and its connection.
func Example() {
	err := func() error {
		connection, err := nats.Connect("nats://one:4222,nats://two:4222", prioritynats.ConnectOptions(nil)...)
		if err != nil {
			return err
		}
		js, err := jetstream.New(connection)
		if err != nil {
			return err
		}
		documents, err := prioritynats.Open(ctx, js, store, &prioritynats.Options{Workers: 8, Replicas: 3})
		if err != nil {
			return err
		}

		// The publisher.
		if _, err := documents.Publish(ctx, "acme", "invoice-7", &nats.Msg{Data: []byte("…")}); err != nil {
			return err
		}

		// The worker.
		return documents.Work(ctx, func(_ context.Context, message jetstream.Msg) error {
			customer, document := prioritynats.Identity(message.Headers())
			slog.Info("processing", "customer", customer, "document", document, "bytes", len(message.Data()))
			return nil
		})
	}()
	log.Fatal(err)
}

// A program that has a stream keeps it.
func ExampleOpen() {
	err := func() error {
		documents, err := prioritynats.Open(ctx, js, store, &prioritynats.Options{Stream: "DOCS"})
		if err != nil {
			return err
		}
		_, err = documents.Publish(ctx, customer, document, &nats.Msg{Data: body})
		return err
	}()
	log.Fatal(err)
}

func ExampleQueue_Work() {
	err := func() (err error) {
		err = documents.Work(ctx, func(ctx context.Context, message jetstream.Msg) error {
			return work(ctx, message.Data())
		})
		return err
	}()
	log.Fatal(err)
}

// A consumer of your own has the subject of one level.
func ExampleQueue_Handle() {
	process := func(ctx context.Context, message jetstream.Msg) error { return work(ctx, message.Data()) }
	_, err := consumer.Consume(func(message jetstream.Msg) {
		documents.Handle(ctx, message, process)
	}, jetstream.PullMaxMessages(1))
	if err != nil {
		log.Fatal(err)
	}
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
