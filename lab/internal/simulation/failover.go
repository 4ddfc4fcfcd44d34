package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// failover is Redis whose replica takes over: it has not heard of what was written
// in the last moments before.
type failover struct {
	span             Span
	clock            *clock
	primary, replica *memory.Store
}

func newFailover(w *Workload, options memory.Options, clock *clock) (f *failover, err error) {
	f = &failover{span: w.Failover, clock: clock}
	if f.primary, err = memory.New(&options); err != nil {
		return nil, err
	}
	f.replica, err = memory.New(&options)
	return f, err
}

func (f *failover) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return onBoth(f, func(store *memory.Store) (priority.Decision, error) { return store.Next(ctx, customer) })
}

func (f *failover) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return onBoth(f, func(store *memory.Store) (priority.Decision, error) {
		return store.Submit(ctx, customer, document)
	})
}

func (f *failover) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	return onBoth(f, func(store *memory.Store) (priority.Ended, error) { return store.Done(ctx, customer, document, took) })
}

// onBoth makes a call of those stores that it reaches now.
func onBoth[T any](f *failover, call func(*memory.Store) (T, error)) (answer T, err error) {
	now := time.Duration(f.clock.Now().UnixNano())
	if now >= f.span.To {
		return call(f.replica)
	}
	answer, err = call(f.primary)
	if now < f.span.From {
		_, late := call(f.replica)
		err = errors.Join(err, late)
	}
	return answer, err
}
