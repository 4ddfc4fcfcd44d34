package prioritytest

import (
	"context"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/itemerrors"
)

// FailingStore is a [priority.Store] around a Store that fails on demand, with the
// errors that a RedisStore would return. It passes all other calls on. A call that
// is wrong, or whose context has ended, does not meet a fault. It is safe for
// concurrent use.
type FailingStore struct {
	store  priority.Store
	faults faultList
}

var _ priority.Store = (*FailingStore)(nil)

// NewFailingStore returns a store that does not fail yet.
func NewFailingStore(store priority.Store) *FailingStore {
	if store == nil {
		panic("prioritytest: NewFailingStore(nil)")
	}
	return &FailingStore{store: store}
}

// Fail makes calls fail from now on. Of several faults, a call meets the first one
// that was added and has not ended.
func (s *FailingStore) Fail(fault Fault) { s.faults.add(fault) }

// Heal ends all faults, also for the calls that they delay.
func (s *FailingStore) Heal() { s.faults.heal() }

// Next implements [priority.Store].
func (s *FailingStore) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return one(ctx, s, Next, customer, 1, check.Customer(customer), func(ctx context.Context) (priority.Decision, error) {
		return s.store.Next(ctx, customer)
	})
}

// NextN implements [priority.Store].
func (s *FailingStore) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	return one(ctx, s, NextN, customer, n, check.N(customer, n), func(ctx context.Context) ([]priority.Decision, error) {
		return s.store.NextN(ctx, customer, n)
	})
}

// NextEach implements [priority.Store]. Its error is a [*priority.BatchError].
func (s *FailingStore) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if check.Each(customers) != nil {
		return s.store.NextEach(ctx, customers)
	}
	return s.each(ctx, customers)
}

// Submit implements [priority.Store].
func (s *FailingStore) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return one(ctx, s, Submit, customer, 1, check.Submit(customer, document), func(ctx context.Context) (priority.Decision, error) {
		return s.store.Submit(ctx, customer, document)
	})
}

// SubmitN implements [priority.Store]. It fails for all documents, with a
// [*priority.BatchError].
func (s *FailingStore) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	wrong := check.SubmitN(customer, documents)
	decisions, err := one(ctx, s, SubmitN, customer, len(documents), wrong, func(ctx context.Context) ([]priority.Decision, error) {
		return s.store.SubmitN(ctx, customer, documents)
	})
	if decisions == nil && wrong == nil && len(documents) > 0 {
		decisions = make([]priority.Decision, len(documents))
	}
	return decisions, err
}

// Done implements [priority.Store].
func (s *FailingStore) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	return one(ctx, s, Done, customer, 1, check.Done(customer, document, took), func(ctx context.Context) (priority.Ended, error) {
		return s.store.Done(ctx, customer, document, took)
	})
}

// DoneN implements [priority.Store]. It fails for all documents, with a
// [*priority.BatchError].
func (s *FailingStore) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	wrong := check.DoneN(customer, documents, took)
	ended, err := one(ctx, s, DoneN, customer, len(documents), wrong, func(ctx context.Context) ([]priority.Ended, error) {
		return s.store.DoneN(ctx, customer, documents, took)
	})
	if ended == nil && wrong == nil && len(documents) > 0 {
		ended = make([]priority.Ended, len(documents))
	}
	return ended, err
}

// DoneLate is how a fallback sends the Dones that the store missed; it fails as a DoneN does. In a
// store that has no DoneLate nothing ends.
func (s *FailingStore) DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error) {
	return one(ctx, s, DoneN, customer, len(documents), nil, func(ctx context.Context) ([]priority.Ended, error) {
		late, ok := priority.As[interface {
			DoneLate(context.Context, string, []priority.Late, time.Duration) ([]priority.Ended, error)
		}](s.store)
		if !ok {
			return make([]priority.Ended, len(documents)), nil
		}
		return late.DoneLate(ctx, customer, documents, took)
	})
}

// Peek implements [priority.Store].
func (s *FailingStore) Peek(ctx context.Context, customer string) (priority.State, error) {
	return one(ctx, s, Peek, customer, 1, check.Customer(customer), func(ctx context.Context) (priority.State, error) {
		return s.store.Peek(ctx, customer)
	})
}

// Reset implements [priority.Store].
func (s *FailingStore) Reset(ctx context.Context, customer string) error {
	_, err := one(ctx, s, Reset, customer, 1, check.Customer(customer), func(ctx context.Context) (none struct{}, err error) {
		return none, s.store.Reset(ctx, customer)
	})
	return err
}

// PolicyOf implements [priority.Store].
func (s *FailingStore) PolicyOf(customer string) priority.Policy { return s.store.PolicyOf(customer) }

// Last implements [priority.Store].
func (s *FailingStore) Last() priority.Level { return s.store.Last() }

// Unwrap returns the wrapped store; see [priority.As].
func (s *FailingStore) Unwrap() priority.Store { return s.store }

// one makes a call about n documents of one customer, with the fault that it meets. A call
// that is wrong, or about nothing, meets none.
func one[T any](ctx context.Context, s *FailingStore, operation Operation, customer string, n int, wrong error, pass func(context.Context) (T, error)) (T, error) {
	if wrong != nil || n == 0 {
		return pass(ctx)
	}
	fault := s.faults.take(ctx, operation, customer)
	if fault == nil {
		return pass(ctx)
	}
	if fault.Counted && operation != Peek {
		_, _ = pass(ctx)
	}
	if cause := fault.wait(ctx); cause != nil {
		var none T
		err := fault.failed(operation, customer, cause)
		if operation == SubmitN || operation == DoneN {
			err = &priority.BatchError{Errs: slices.Repeat([]error{err}, n)}
		}
		return none, err
	}
	return pass(ctx)
}

// each makes a NextEach. It passes on at once the entries that the fault does not affect.
func (s *FailingStore) each(ctx context.Context, customers []string) ([]priority.Decision, error) {
	fault := s.faults.take(ctx, NextEach, customers...)
	if fault == nil {
		return s.store.NextEach(ctx, customers)
	}
	decisions, errs := make([]priority.Decision, len(customers)), make([]error, len(customers))
	passOn := func(which func(customer string) bool) {
		var at []int
		var passed []string
		for i, customer := range customers {
			if which(customer) {
				at, passed = append(at, i), append(passed, customer)
			}
		}
		if len(passed) == 0 {
			return
		}
		answers, err := s.store.NextEach(ctx, passed)
		for i, err := range itemerrors.Of(err, len(passed)) {
			if errs[at[i]] = err; err == nil {
				decisions[at[i]] = answers[i]
			}
		}
	}
	passOn(func(customer string) bool { return fault.Counted || !fault.concerns(customer) })
	if cause := fault.wait(ctx); cause == nil {
		passOn(fault.concerns)
	} else {
		for i, customer := range customers {
			if fault.concerns(customer) {
				decisions[i], errs[i] = priority.Decision{}, fault.failed(NextEach, customer, cause)
			}
		}
	}
	if slices.ContainsFunc(errs, func(err error) bool { return err != nil }) {
		return decisions, &priority.BatchError{Errs: errs}
	}
	return decisions, nil
}
