package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"github.com/docpriority/priority/priorityotel"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
)

// Process works on a document. With an error it is tried again, some time later;
// with one that wraps asynq.SkipRetry it is given up at once.
type Process = func(ctx context.Context, customer, document string, body []byte) error

// Work has process work on documents until the context ends, and on those that it
// has in hand to their end.
func (d *Documents) Work(ctx context.Context, process Process) error {
	server := asynq.NewServerFromRedisClient(d.redis, asynq.Config{
		Concurrency:    d.options.Workers,
		Queues:         queue.AsynqQueues(d.options.Name, queue.LinearWeights(d.store.Last())),
		StrictPriority: d.options.Strict,

		TaskCheckInterval:        d.options.Check,
		DelayedTaskCheckInterval: time.Second, // for documents that wait for their next try
		RetryDelayFunc:           d.backoff,

		// asynq abandons what is in hand after this time, and has it served again; 8 s
		// by default. A document that is over its Limit ends before.
		ShutdownTimeout: d.options.Limit + 2*grace,

		BaseContext: func() context.Context { return context.WithoutCancel(ctx) },
		Logger:      logger{d.options.Logger},
	})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		return d.serve(ctx, task, process)
	}))
	if err != nil {
		return fmt.Errorf("work: %w", err)
	}
	<-ctx.Done()
	server.Shutdown()
	return nil
}

// serve has process work on a document once, and says Done unless it is to be tried
// again. Then asynq removes it from the queue, moves it to the archive, or has it
// wait for its next try.
func (d *Documents) serve(ctx context.Context, task *asynq.Task, process Process) (err error) {
	defer d.awaitRedis(ctx)
	ctx, end := priorityotel.StartProcess(ctx, system, d.options.Name, task.Headers())
	defer func() { end(err) }()
	customer, document := task.Headers()[customerHeader], task.Headers()[documentHeader]
	log := d.options.Logger.With("customer", customer, "document", document)
	failures, _ := asynq.GetRetryCount(ctx)
	if failures > len(d.options.Backoff) { // nobody was left to give it up after its last try
		d.done(ctx, log, customer, document, 0)
		err := fmt.Errorf("the last try ended over all limits, or with its worker: %w", asynq.SkipRetry)
		log.Error("a document is given up", "error", err)
		return err
	}

	limited, cancel := context.WithTimeout(ctx, d.options.Limit)
	defer cancel()
	began := time.Now()
	err = try(log, func() error { return process(limited, customer, document, task.Payload()) })
	took := time.Since(began)
	switch {
	case err == nil:
	case errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask):
		log.Error("a document is given up", "error", err)
	case failures == len(d.options.Backoff):
		log.Error("a document is given up", "error", err)
		err = fmt.Errorf("%w; %w", err, asynq.SkipRetry)
	default:
		log.Warn("a document has failed", "error", err, "again in", d.options.Backoff[failures])
		return err
	}
	d.done(ctx, log, customer, document, took) // before the queue forgets it: see docs/queues/asynq.md
	return err
}

// try returns what process does: a failure if it returns an error, or panics.
func try(log *slog.Logger, process func() error) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			log.Error("process has panicked", "reason", reason, "stack", string(debug.Stack()))
			err = newFailure(fmt.Errorf("panic: %v", reason))
		}
	}()
	if err := process(); err != nil {
		return newFailure(err)
	}
	return nil
}

// failure is an error whose text asynq can keep. With one that is not UTF-8, as that
// of a parser that quotes the document, asynq could not tell Redis of the failure.
type failure struct {
	text string
	error
}

func newFailure(err error) failure {
	const most = 1000 // bytes
	text := strings.ToValidUTF8(fmt.Sprint(err), "\uFFFD")
	return failure{strings.ToValidUTF8(text[:min(len(text), most)], ""), err}
}

func (f failure) Error() string { return f.text }
func (f failure) Unwrap() error { return f.error }

func (d *Documents) done(ctx context.Context, log *slog.Logger, customer, document string, took time.Duration) {
	if err := d.store.Done(context.WithoutCancel(ctx), customer, document, took); err != nil {
		log.Warn("a document counts as pending until its lease ends", "error", err)
	}
}

// awaitRedis returns when Redis answers, or when asynq has given the document to
// others. What becomes of a document asynq tells Redis once, right after serve; where
// that fails the document is served again.
func (d *Documents) awaitRedis(ctx context.Context) {
	for err := d.redis.Ping(ctx).Err(); err != nil; err = d.redis.Ping(ctx).Err() {
		if sleep(ctx, pause) != nil {
			return
		}
		d.options.Logger.Warn("a document's end waits for Redis", "error", err)
	}
}

// backoff is how long a document waits after so many failures before this one.
func (d *Documents) backoff(failures int, _ error, _ *asynq.Task) time.Duration {
	if failures >= len(d.options.Backoff) {
		return 0 // to be given up
	}
	return d.options.Backoff[failures]
}

// logger has asynq write to ours.
type logger struct{ to *slog.Logger }

func (l logger) Debug(args ...any) { l.to.Debug(fmt.Sprint(args...)) }
func (l logger) Info(args ...any)  { l.to.Info(fmt.Sprint(args...)) }
func (l logger) Warn(args ...any)  { l.to.Warn(fmt.Sprint(args...)) }
func (l logger) Error(args ...any) { l.to.Error(fmt.Sprint(args...)) }
func (l logger) Fatal(args ...any) { l.to.Error(fmt.Sprint(args...)) } // asynq has no such line
