// Asynq puts customers' documents into asynq's queues, one for each level, and works on them:
// a customer who sends a hundred documents at once does not make another one wait.
//
//	go run ./examples/queues/asynq -redis localhost:6379
//
// It prints the documents in the order in which they are served, and works on until it is
// interrupted. A service runs produce and work in separate processes.
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

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/queue"
	priorityasynq "github.com/docpriority/priority/queue/asynq"
)

func main() {
	address := flag.String("redis", "localhost:6379", "the `address` of Redis, for asynq's queues and the customers' counts")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address string) (err error) {
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	store, err := fleet.Join(client, nil)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = errors.Join(err, store.Close(ctx))
	}()
	queues, err := priorityasynq.NewClient(asynq.NewClientFromRedisClient(client), store, "documents")
	if err != nil {
		return err
	}
	if err := produce(ctx, queues); err != nil {
		return err
	}
	go queues.Settle(ctx, client) // calls Done for documents whose workers die at the last try
	return work(ctx, client, store)
}

func produce(ctx context.Context, queues *priorityasynq.Client) error {
	send := func(customer, document string) error {
		task := asynq.NewTask("convert", []byte(document))
		_, err := queues.Enqueue(ctx, customer, task, asynq.MaxRetry(5), asynq.Timeout(time.Minute))
		return err
	}
	for number := range 100 {
		if err := send("archive", fmt.Sprint("archive-", number)); err != nil {
			return err
		}
	}
	return send("clinic", "clinic-0")
}

func work(ctx context.Context, client *redis.Client, store *fleet.Member) error {
	middleware, err := priorityasynq.Middleware(store)
	if err != nil {
		return err
	}
	mux := asynq.NewServeMux()
	mux.Use(middleware) // calls Done
	mux.HandleFunc("convert", func(_ context.Context, task *asynq.Task) error {
		time.Sleep(20 * time.Millisecond) // the work; an error would have asynq try again
		fmt.Println(string(task.Payload()))
		return nil
	})
	server := asynq.NewServerFromRedisClient(client, asynq.Config{
		Queues:            queue.AsynqQueues("documents", store.Last()), // and "default", if you have other tasks
		StrictPriority:    true,                                         // without it a flood keeps most workers
		TaskCheckInterval: 50 * time.Millisecond,                        // or a first document waits up to 1.5 s
		Concurrency:       4,
		ShutdownTimeout:   time.Minute, // as long as a document may take
		LogLevel:          asynq.WarnLevel,
	})
	if err := server.Start(mux); err != nil {
		return err
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}
