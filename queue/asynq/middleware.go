package priorityasynq

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

var errPanicked = errors.New("priorityasynq: the handler has panicked")

// Middleware calls Done before asynq records a document's end. So a crash in between
// repeats the document, but leaves nothing pending. Place it first among the mux's
// middleware, so that it sees what the others return.
//
// It also converts errors and panics to UTF-8, because asynq stores only that: a parser's
// error may quote the document.
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

// process calls the next handler, and then Done, also after a panic.
func process(ctx context.Context, store priority.Store, d document, task *asynq.Task, next asynq.Handler) (err error) {
	began := time.Now()
	err = errPanicked
	defer func() {
		reason := recover()
		if isOver(ctx, err) {
			_ = done(ctx, store, d, time.Since(began))
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
	maxRetry, _ := asynq.GetMaxRetry(ctx)
	return retried >= maxRetry
}

// storable returns an error whose text asynq can store.
func storable(err error) error {
	if err == nil || utf8.ValidString(err.Error()) {
		return err
	}
	return utf8Error{err}
}

type utf8Error struct{ error }

func (e utf8Error) Error() string { return strings.ToValidUTF8(e.error.Error(), "\uFFFD") }
func (e utf8Error) Unwrap() error { return e.error }
