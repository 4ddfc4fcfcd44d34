package main

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
)

const documentTask = "document"

// documents are asynq queues, one for each level.
type documents struct {
	redis  asynq.RedisConnOpt
	client *asynq.Client
	prefix string
	last   priority.Level // of all customers: store.Last()
	strict bool           // the last level starves; otherwise each is served by its weight
}

// produce counts a customer's document and enqueues it with its level.
func (d *documents) produce(ctx context.Context, store priority.Store, customer, document string) error {
	decision, err := store.Next(ctx, customer)
	if err != nil {
		return err
	}
	return d.enqueue(ctx, decision.Level, document)
}

func (d *documents) enqueue(ctx context.Context, level priority.Level, document string) error {
	_, err := d.client.EnqueueContext(ctx, asynq.NewTask(documentTask, []byte(document)),
		asynq.Queue(queue.Name(d.prefix, level, d.last)))
	if err != nil {
		return fmt.Errorf("enqueue %s: %w", document, err)
	}
	return nil
}

// consume has process work on one document at a time, until the context ends. If
// process fails, asynq puts the document back into its level's queue, later.
func (d *documents) consume(ctx context.Context, process func(document string) error) error {
	server := asynq.NewServer(d.redis, asynq.Config{
		Queues:         queue.AsynqQueues(d.prefix, queue.LinearWeights(d.last)),
		StrictPriority: d.strict,
		Concurrency:    1, // workers in this process

		TaskCheckInterval:        100 * time.Millisecond, // of idle workers
		DelayedTaskCheckInterval: 100 * time.Millisecond, // for retries
		RetryDelayFunc:           func(int, error, *asynq.Task) time.Duration { return 0 },
		LogLevel:                 asynq.FatalLevel,
	})
	mux := asynq.NewServeMux()
	mux.HandleFunc(documentTask, func(_ context.Context, task *asynq.Task) error {
		return process(string(task.Payload()))
	})
	if err := server.Start(mux); err != nil {
		return fmt.Errorf("start asynq: %w", err)
	}
	<-ctx.Done()
	server.Shutdown() // after the documents that are being worked on
	return nil
}
