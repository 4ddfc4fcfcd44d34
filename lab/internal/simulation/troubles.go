package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// troubled is Redis that cannot be reached for a while, or that fails over. A store in memory stands
// for each of the two that hear of documents then. In an outage that is package fallback's, which
// forgets what it counted when Redis is back, and sends the Dones that Redis has missed: the documents
// are done in other processes, so it hears of no Done. In a failover it is the replica's, which has not
// heard of what was written in the last moments before.
type troubled struct {
	clock        *clock
	outage       bool
	span         Span
	redis, other *memory.Store
	owed         []func(*memory.Store) error // Dones
}

func newTroubled(w *Workload, options memory.Options, clock *clock) (t *troubled, err error) {
	t = &troubled{clock: clock, outage: w.Outage.To > 0, span: w.Failover}
	if t.outage {
		t.span = w.Outage
	}
	if t.redis, err = memory.New(&options); err != nil {
		return nil, err
	}
	t.other, err = memory.New(&options)
	return t, err
}

func (t *troubled) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return onReached(t, func(store *memory.Store) (priority.Decision, error) { return store.Next(ctx, customer) })
}

func (t *troubled) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return onReached(t, func(store *memory.Store) (priority.Decision, error) {
		return store.Submit(ctx, customer, document)
	})
}

func (t *troubled) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	done := func(store *memory.Store) (priority.Ended, error) { return store.Done(ctx, customer, document, took) }
	if t.outage && t.within() {
		t.owed = append(t.owed, func(store *memory.Store) error { _, err := done(store); return err })
		return priority.Ended{}, nil
	}
	return onReached(t, done)
}

func (t *troubled) within() bool { return t.clock.now >= t.span.From && t.clock.now < t.span.To }

// onReached makes a call of those stores that it reaches now, and returns what the last of them says.
func onReached[T any](t *troubled, call func(*memory.Store) (T, error)) (answer T, err error) {
	reached := []*memory.Store{t.redis}
	switch {
	case t.outage && t.within(), !t.outage && t.clock.now >= t.span.To:
		reached = []*memory.Store{t.other}
	case !t.outage && t.clock.now < t.span.From:
		reached = []*memory.Store{t.other, t.redis}
	}
	if t.clock.now >= t.span.To {
		for _, pay := range t.owed {
			err = errors.Join(err, pay(t.redis))
		}
		t.owed = nil
	}
	for _, store := range reached {
		var failed error
		answer, failed = call(store)
		err = errors.Join(err, failed)
	}
	return answer, err
}
