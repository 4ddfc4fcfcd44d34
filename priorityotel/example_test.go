package priorityotel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/priorityotel"
	"github.com/redis/go-redis/v9"
)

func ExampleInstrumentation_ObserveStore() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	instrumentation, err := priorityotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	store, err := control.New(client, &control.Options{
		OnError: func(err error) { slog.Warn("what operators have set cannot be followed", "error", err) },
	})
	if err != nil {
		log.Fatal(err)
	}
	observed := observe.New(store, instrumentation.Observe)
	stop, err := instrumentation.ObserveStore(observed)
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	decision, err := observed.Next(context.Background(), "acme")
	fmt.Println(decision.Level, decision.Ruled, err)
}

func ExampleStartSend() {
	ctx, store := context.Background(), new(memory.Store)
	publish, process := func(priority.Level, map[string]string) {}, func(context.Context) error { return nil }

	ctx, headers, end := priorityotel.StartSend(ctx, "rabbitmq", "documents")
	decision, err := store.Submit(ctx, "acme", "invoice-1", 0)
	publish(decision.Level, headers)
	end(err)

	// … and in the worker, with the headers that came with the document:
	ctx, end = priorityotel.StartProcess(ctx, "rabbitmq", "documents", headers)
	err = process(ctx)
	err = errors.Join(err, store.Done(ctx, "acme", "invoice-1", 0))
	end(err)

	fmt.Println(decision.Level, err)
	// Output: 1 <nil>
}
