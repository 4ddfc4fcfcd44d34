package priorityasynq

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ending"
	"github.com/docpriority/priority/internal/typednil"
)

var errPanicked = errors.New("priorityasynq: the handler has panicked")

// Middleware calls Done before asynq records a document's end. So a crash in between
// repeats the document, but leaves nothing pending. Place it first among the mux's
// middleware, so that it sees what the others return.
//
// A task that no [Client] has enqueued is left alone. An error wraps [priority.ErrInvalid].
func Middleware(store priority.Store) (asynq.MiddlewareFunc, error) {
	if typednil.Is(store) {
		return nil, invalid("option: the store is nil")
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			d, ok := documentOf(task.Headers())
			if !ok {
				return next.ProcessTask(ctx, task)
			}
			return process(ctx, store, d, task, next)
		})
	}, nil
}

// process calls the next handler, and then Done, also after a panic, which asynq recovers.
func process(ctx context.Context, store priority.Store, d document, task *asynq.Task, next asynq.Handler) (err error) {
	began := time.Now()
	err = errPanicked
	defer func() {
		if isOver(ctx, err) {
			_ = ending.Done(ctx, store, d.customer, d.id, time.Since(began))
		}
	}()
	err = next.ProcessTask(ctx, task)
	return err
}

// isOver reports whether asynq will not retry the task, by asynq's own rules. When a task's
// context ends, by its timeout or by an operator, the task has failed, whatever is returned.
func isOver(ctx context.Context, err error) bool {
	if ctx.Err() == nil && (err == nil || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask)) {
		return true
	}
	retried, _ := asynq.GetRetryCount(ctx)
	maxRetry, _ := asynq.GetMaxRetry(ctx)
	return retried >= maxRetry
}
