// Package asynqredis has what the program for asynq needs beside asynq: a Redis, and the
// command line's view of the queues.
package asynqredis

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/queue"
	priorityasynq "github.com/docpriority/priority/queue/asynq"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// Redis is asynq's, and what flags say.
type Redis struct {
	*program.Config
	Redis   redis.UniversalClient
	Strict  bool
	Check   time.Duration
	Process program.Process // set by Work
}

// Example returns the program for a queue.
func Example(queueIn func(*Redis) (program.Queue, error)) *program.Example {
	r := Redis{Check: 100 * time.Millisecond}
	return &program.Example{
		Queue: "asynq",
		Start: server.StartRedis,
		Call:  func(level, last priority.Level) string { return "queue " + queue.Name("documents", level, last) },
		Flags: func(flags *flag.FlagSet) {
			flags.BoolVar(&r.Strict, "strict", false, "work: level 1 while there is any; the last level starves")
			flags.DurationVar(&r.Check, "check", r.Check, "work: how often to look for documents while a worker is free")
		},
		Open: func(_ context.Context, c *program.Config) (program.Queue, error) {
			address, err := redis.ParseURL(c.URL)
			if err != nil {
				return nil, err
			}
			own := r
			own.Config, own.Redis = c, redis.NewClient(address)
			return queueIn(&own)
		},
	}
}

// Delay is an asynq.RetryDelayFunc: a task waits for the Backoff.
func (r *Redis) Delay(retried int, _ error, _ *asynq.Task) time.Duration {
	if retried >= len(r.Backoff) {
		return 0 // to be archived
	}
	return r.Backoff[retried]
}

// Failed logs a failure: asynq does not.
func (r *Redis) Failed(_ context.Context, task *asynq.Task, err error) {
	r.Logger.Warn("a document has failed", "headers", task.Headers(), "error", err)
}

// Queue is a program.Queue.
type Queue struct {
	*Redis
	Client  *priorityasynq.Client
	Enqueue func(ctx context.Context, customer, document string, body []byte) error
	Server  func() *asynq.Server // a new one, for each Work
	Mux     *asynq.ServeMux      // its handlers call Process
}

// Letters are the tasks that were given up.
func (q *Queue) Letters() (*priorityasynq.Letters, error) {
	return priorityasynq.LettersOf(q.Client, q.Redis.Redis)
}

// Produce enqueues a document, as often as that takes.
func (q *Queue) Produce(ctx context.Context, customer, document string, body []byte) error {
	return program.Insist(ctx, q.Logger, func(ctx context.Context) error {
		return q.Enqueue(ctx, customer, document, body)
	}, func(err error) bool { return errors.Is(err, priorityasynq.ErrSubmit) })
}

// Work works until the context ends, and on what it has in hand to its end.
func (q *Queue) Work(ctx context.Context, process program.Process) error {
	letters, err := q.Letters()
	if err != nil {
		return err
	}
	q.Process = process
	server := q.Server()
	if err := server.Start(q.Mux); err != nil {
		return fmt.Errorf("work: %w", err)
	}
	letters.Settle(ctx)
	server.Shutdown()
	return nil
}

// Dead returns the documents that were given up.
func (q *Queue) Dead(ctx context.Context) ([]string, error) {
	letters, err := q.Letters()
	if err != nil {
		return nil, err
	}
	all, err := letters.Dead(ctx)
	var dead []string
	for _, letter := range all {
		dead = append(dead, letter.Document)
	}
	return dead, err
}

// Remove deletes the queues, and asynq's statistics of today and in total.
func (q *Queue) Remove(ctx context.Context) error {
	inspector := asynq.NewInspectorFromRedisClient(q.Redis.Redis)
	for _, name := range queue.Names(q.Name, q.Store.Last()) {
		if err := inspector.DeleteQueue(name, true); err != nil && !errors.Is(err, asynq.ErrQueueNotFound) {
			return fmt.Errorf("remove queue %s: %w", name, err)
		}
		processed, failed := "asynq:{"+name+"}:processed", "asynq:{"+name+"}:failed"
		today := ":" + time.Now().UTC().Format(time.DateOnly)
		if err := q.Redis.Redis.Del(ctx, processed, processed+today, failed, failed+today).Err(); err != nil {
			return fmt.Errorf("remove the statistics of queue %s: %w", name, err)
		}
	}
	return nil
}

// Close closes the client of Redis.
func (q *Queue) Close() error { return q.Redis.Redis.Close() }

// Logger has asynq write to another one.
type Logger struct{ To *slog.Logger }

func (l Logger) Debug(args ...any) { l.To.Debug(fmt.Sprint(args...)) }
func (l Logger) Info(args ...any)  { l.To.Info(fmt.Sprint(args...)) }
func (l Logger) Warn(args ...any)  { l.To.Warn(fmt.Sprint(args...)) }
func (l Logger) Error(args ...any) { l.To.Error(fmt.Sprint(args...)) }
func (l Logger) Fatal(args ...any) { l.To.Error(fmt.Sprint(args...)) } // asynq has no such line
