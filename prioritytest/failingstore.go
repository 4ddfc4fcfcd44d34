package prioritytest

import (
	"context"
	"errors"

	"github.com/docpriority/priority"
)

// FailingStore is a [priority.Store] around a Store that fails as it is told to,
// with the errors that a Redis store would return. It passes all other calls on,
// also those that are wrong or whose context has ended: they meet no fault. It
// is safe for concurrent use.
type FailingStore struct {
	store  priority.Store
	faults faults
}

var _ priority.Store = (*FailingStore)(nil)

// NewFailingStore returns a store that does not fail yet.
func NewFailingStore(store priority.Store) *FailingStore {
	return &FailingStore{store: store}
}

// Fail makes calls fail from now on. Of several faults, a call meets the first
// that was told and is not over.
func (s *FailingStore) Fail(fault Fault) { s.faults.add(fault) }

// Heal ends all faults.
func (s *FailingStore) Heal() { s.faults.heal() }

// Next implements [priority.Store].
func (s *FailingStore) Next(ctx context.Context, customer string) (priority.Decision, error) {
	fault := s.faults.take(ctx, Next, customer)
	if fault == nil {
		return s.store.Next(ctx, customer)
	}
	if fault.Counted {
		_, _ = s.store.Next(ctx, customer)
	}
	return priority.Decision{}, fault.failed(Next, customer)
}

// NextN implements [priority.Store].
func (s *FailingStore) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if n <= 0 || n > priority.MaxDocuments {
		return s.store.NextN(ctx, customer, n)
	}
	fault := s.faults.take(ctx, NextN, customer)
	if fault == nil {
		return s.store.NextN(ctx, customer, n)
	}
	if fault.Counted {
		_, _ = s.store.NextN(ctx, customer, n)
	}
	return nil, fault.failed(NextN, customer)
}

// NextEach implements [priority.Store]. Its error is a [*priority.BatchError].
func (s *FailingStore) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	fault := s.faults.take(ctx, NextEach, customers...)
	if fault == nil {
		return s.store.NextEach(ctx, customers)
	}
	var passed []string
	for _, customer := range customers {
		if fault.Counted || !fault.concerns(customer) {
			passed = append(passed, customer)
		}
	}
	answers, err := s.store.NextEach(ctx, passed)
	var batch *priority.BatchError
	errors.As(err, &batch)

	decisions, errs := make([]priority.Decision, len(customers)), make([]error, len(customers))
	answer := 0
	for i, customer := range customers {
		switch {
		case fault.concerns(customer):
			errs[i] = fault.failed(NextEach, customer)
		case batch != nil && batch.Errs[answer] != nil:
			errs[i] = batch.Errs[answer]
		case batch == nil && err != nil:
			errs[i] = err
		default:
			decisions[i] = answers[answer]
		}
		if fault.Counted || !fault.concerns(customer) {
			answer++
		}
	}
	return decisions, &priority.BatchError{Errs: errs}
}

// Peek implements [priority.Store].
func (s *FailingStore) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	if fault := s.faults.take(ctx, Peek, customer); fault != nil {
		return priority.Decision{}, fault.failed(Peek, customer)
	}
	return s.store.Peek(ctx, customer)
}

// Reset implements [priority.Store].
func (s *FailingStore) Reset(ctx context.Context, customer string) error {
	fault := s.faults.take(ctx, Reset, customer)
	if fault == nil {
		return s.store.Reset(ctx, customer)
	}
	if fault.Counted {
		_ = s.store.Reset(ctx, customer)
	}
	return fault.failed(Reset, customer)
}

// PolicyOf returns the policy by which the store decides for a customer, with
// every field filled in.
func (s *FailingStore) PolicyOf(customer string) priority.Policy {
	return policyOf(s.store, customer)
}
