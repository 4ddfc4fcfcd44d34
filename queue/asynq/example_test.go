package priorityasynq_test

import (
	"context"
	"fmt"
	"log"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	priorityasynq "github.com/docpriority/priority/queue/asynq"
)

// A test runs asynq's client and server on miniredis, with a store in memory. In a fleet the
// store is of fleet.Join.
func Example() {
	ctx := context.Background()
	server, err := miniredis.Run()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	redisClient := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer redisClient.Close()
	store := new(memory.Store)

	client, err := priorityasynq.NewClient(asynq.NewClientFromRedisClient(redisClient), store, "documents")
	if err != nil {
		log.Fatal(err)
	}
	for _, customer := range []string{"archive", "archive", "archive", "bakery"} {
		if _, err := client.Enqueue(ctx, customer, asynq.NewTask("convert", []byte(customer))); err != nil {
			log.Fatal(err)
		}
	}

	served := make(chan string)
	middleware, err := priorityasynq.Middleware(store)
	if err != nil {
		log.Fatal(err)
	}
	mux := asynq.NewServeMux()
	mux.Use(middleware)
	mux.HandleFunc("convert", func(_ context.Context, task *asynq.Task) error {
		served <- string(task.Payload())
		return nil
	})
	worker := asynq.NewServerFromRedisClient(redisClient, asynq.Config{
		Queues:         queue.AsynqQueues("documents", store.Last()),
		StrictPriority: true, Concurrency: 1, LogLevel: asynq.FatalLevel,
	})
	if err := worker.Start(mux); err != nil {
		log.Fatal(err)
	}
	for range 4 {
		fmt.Println(<-served)
	}
	worker.Shutdown()
	state, err := store.Peek(ctx, "archive")
	fmt.Println(state.Pending, "pending", err)

	// Output:
	// archive
	// archive
	// bakery
	// archive
	// 0 pending <nil>
}
