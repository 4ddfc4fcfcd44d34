package priorityotel_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/priorityotel"
	"github.com/redis/go-redis/v9"
)

func ExampleInstrumentation_ObserveFleet() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	instrumentation, err := priorityotel.New(nil)
	if err != nil {
		log.Fatal(err)
	}

	stop, err := instrumentation.ObserveFleet(client, "priority")
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
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
