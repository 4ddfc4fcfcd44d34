// Asynq puts customers' documents into asynq's queues, one for each level, and works on them.
//
//	go run ./examples/queues/asynq            # who waits how long during a flood
//	go run ./examples/queues/asynq -h         # to produce and to work
package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/asynqredis"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/queue"
	priorityasynq "github.com/docpriority/priority/queue/asynq"
	"github.com/hibiken/asynq"
)

func main() { program.Main(example()) }

func example() *program.Example { return asynqredis.Example(open) }

// payload is of a task that works on a document.
type payload struct {
	Customer, Document string
	Body               []byte
}

func open(r *asynqredis.Redis) (program.Queue, error) {
	client, err := priorityasynq.NewClient(asynq.NewClientFromRedisClient(r.Redis), r.Store, r.Name)
	enqueue := func(ctx context.Context, customer, document string, body []byte) error {
		text, _ := json.Marshal(payload{customer, document, body})
		task := asynq.NewTask("document", text, asynq.MaxRetry(len(r.Backoff)), asynq.Timeout(r.Limit+11*time.Second))
		_, err := client.Enqueue(ctx, customer, task, priorityasynq.Document(document), priorityasynq.Cost(float64(len(body))))
		return err
	}
	mux := asynq.NewServeMux()
	mux.Use(priorityasynq.Middleware(r.Store))
	mux.HandleFunc("document", func(ctx context.Context, task *asynq.Task) error {
		var of payload
		if err := json.Unmarshal(task.Payload(), &of); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, r.Limit) // asynq counts whole seconds
		defer cancel()
		return r.Process(ctx, of.Customer, of.Document, of.Body)
	})
	server := func() *asynq.Server {
		return asynq.NewServerFromRedisClient(r.Redis, asynq.Config{
			Queues:      queue.AsynqQueues(r.Name, queue.LinearWeights(r.Store.Last())),
			Concurrency: r.Workers, StrictPriority: r.Strict, TaskCheckInterval: r.Check, DelayedTaskCheckInterval: time.Second,
			RetryDelayFunc: r.Delay, ErrorHandler: asynq.ErrorHandlerFunc(r.Failed), Logger: asynqredis.Logger{To: r.Logger},
			ShutdownTimeout: r.Limit + 20*time.Second, // else what takes longer than 8 s is served twice
		})
	}
	return &asynqredis.Queue{Redis: r, Client: client, Enqueue: enqueue, Mux: mux, Server: server}, err
}
