package priorityasynq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
	"github.com/hibiken/asynq"
)

var errPanicked = errors.New("priorityasynq: the handler has panicked")

// Middleware calls Done before asynq records a document's end. So a crash in between
// repeats the document, but leaves nothing pending. Place it first among the mux's
// middleware, so that it sees what the others return.
//
// It also converts errors and panics to UTF-8, because asynq stores only that: a parser's
// error may quote the document.
//
// A task that no [Client] has enqueued is left alone. Middleware panics if the store is
// nil.
func Middleware(store priority.Store) asynq.MiddlewareFunc {
	if typednil.Is(store) {
		panic("priorityasynq: Middleware needs a store")
	}
	return func(next asynq.Handler) asynq.Handler {
		return asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
			of, ok := documentOf(task.Headers())
			if !ok {
				return next.ProcessTask(ctx, task)
			}
			return process(ctx, store, of, task, next)
		})
	}
}

func process(ctx context.Context, store priority.Store, of document, task *asynq.Task, next asynq.Handler) (err error) {
	began := time.Now()
	err = errPanicked
	defer func() {
		reason := recover()
		if isOver(ctx, err) {
			_ = done(ctx, store, of, time.Since(began))
		}
		if reason != nil {
			if text := fmt.Sprint(reason); !utf8.ValidString(text) {
				reason = strings.ToValidUTF8(text, "\uFFFD")
			}
			panic(reason) // asynq recovers, with the whole stack
		}
	}()
	err = storable(next.ProcessTask(ctx, task))
	return err
}

// isOver reports whether asynq will not retry the task, by asynq's own rules.
func isOver(ctx context.Context, err error) bool {
	if err == nil || errors.Is(err, asynq.SkipRetry) || errors.Is(err, asynq.RevokeTask) {
		return true
	}
	retried, _ := asynq.GetRetryCount(ctx)
	most, _ := asynq.GetMaxRetry(ctx)
	return retried >= most
}

// storable returns an error whose text asynq can store.
func storable(err error) error {
	if err == nil || utf8.ValidString(err.Error()) {
		return err
	}
	return failure{err}
}

type failure struct{ error }

func (f failure) Error() string { return strings.ToValidUTF8(f.error.Error(), "\uFFFD") }
func (f failure) Unwrap() error { return f.error }
