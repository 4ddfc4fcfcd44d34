package priority

import (
	"context"
	"time"
)

// ObservedStore is a [Store] around a store, any of them, whose calls observers
// are told of. Without an observer a call goes straight through and costs nothing.
//
// Around a [Fallback] it sees what callers see. The errors that a Fallback keeps
// from its callers are seen by one around the primary, or by OnError.
type ObservedStore struct {
	store     Store
	observers observers
}

var _ Store = (*ObservedStore)(nil)

// NewObservedStore returns a store whose calls the observers are told of, one
// after the other. An observer that is nil is not told.
func NewObservedStore(store Store, observe ...Observer) *ObservedStore {
	return &ObservedStore{store: store, observers: newObservers(observe)}
}

// Next implements [Store].
func (s *ObservedStore) Next(ctx context.Context, customer string) (Decision, error) {
	if s.observers.none() {
		return s.store.Next(ctx, customer)
	}
	start := time.Now()
	decision, err := s.store.Next(ctx, customer)
	s.observers.tellOne(ctx, "Next", customer, 1, start, decision, err)
	return decision, err
}

// NextN implements [Store].
func (s *ObservedStore) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if s.observers.none() {
		return s.store.NextN(ctx, customer, n)
	}
	start := time.Now()
	decisions, err := s.store.NextN(ctx, customer, n)
	items := n
	if n < 0 || n > MaxDocuments {
		items = 0 // it was for no number of documents that there is
	}
	s.observers.tell(ctx, "NextN", []string{customer}, items, start, decisions, err)
	return decisions, err
}

// NextEach implements [Store].
func (s *ObservedStore) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if s.observers.none() {
		return s.store.NextEach(ctx, customers)
	}
	start := time.Now()
	decisions, err := s.store.NextEach(ctx, customers)
	s.observers.tell(ctx, "NextEach", customers, len(customers), start, decisions, err)
	return decisions, err
}

// Peek implements [Store].
func (s *ObservedStore) Peek(ctx context.Context, customer string) (Decision, error) {
	if s.observers.none() {
		return s.store.Peek(ctx, customer)
	}
	start := time.Now()
	decision, err := s.store.Peek(ctx, customer)
	s.observers.tellOne(ctx, "Peek", customer, 0, start, decision, err)
	return decision, err
}

// Reset implements [Store].
func (s *ObservedStore) Reset(ctx context.Context, customer string) error {
	if s.observers.none() {
		return s.store.Reset(ctx, customer)
	}
	start := time.Now()
	err := s.store.Reset(ctx, customer)
	s.observers.tell(ctx, "Reset", []string{customer}, 0, start, nil, err)
	return err
}

// PolicyOf returns the policy by which the store decides for a customer, with
// every field filled in: the default policy where the store does not tell.
func (s *ObservedStore) PolicyOf(customer string) Policy {
	if store, ok := s.store.(policied); ok {
		return store.PolicyOf(customer)
	}
	return DefaultPolicy()
}

// ObservedTracker is a [Tracker] around a tracker, any of them, whose calls
// observers are told of. Without an observer a call goes straight through and
// costs nothing.
type ObservedTracker struct {
	tracker   Tracker
	observers observers
}

var _ Tracker = (*ObservedTracker)(nil)

// NewObservedTracker returns a tracker whose calls the observers are told of, one
// after the other. An observer that is nil is not told.
func NewObservedTracker(tracker Tracker, observe ...Observer) *ObservedTracker {
	return &ObservedTracker{tracker: tracker, observers: newObservers(observe)}
}

// Submit implements [Tracker].
func (t *ObservedTracker) Submit(ctx context.Context, customer, document string) (Decision, error) {
	if t.observers.none() {
		return t.tracker.Submit(ctx, customer, document)
	}
	start := time.Now()
	decision, err := t.tracker.Submit(ctx, customer, document)
	t.observers.tellOne(ctx, "Submit", customer, 1, start, decision, err)
	return decision, err
}

// SubmitN implements [Tracker].
func (t *ObservedTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]Decision, error) {
	if t.observers.none() {
		return t.tracker.SubmitN(ctx, customer, documents)
	}
	start := time.Now()
	decisions, err := t.tracker.SubmitN(ctx, customer, documents)
	t.observers.tell(ctx, "SubmitN", []string{customer}, len(documents), start, decisions, err)
	return decisions, err
}

// Done implements [Tracker].
func (t *ObservedTracker) Done(ctx context.Context, customer, document string) error {
	if t.observers.none() {
		return t.tracker.Done(ctx, customer, document)
	}
	start := time.Now()
	err := t.tracker.Done(ctx, customer, document)
	t.observers.tell(ctx, "Done", []string{customer}, 1, start, nil, err)
	return err
}

// DoneN implements [Tracker].
func (t *ObservedTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	if t.observers.none() {
		return t.tracker.DoneN(ctx, customer, documents)
	}
	start := time.Now()
	err := t.tracker.DoneN(ctx, customer, documents)
	t.observers.tell(ctx, "DoneN", []string{customer}, len(documents), start, nil, err)
	return err
}

// Peek implements [Tracker].
func (t *ObservedTracker) Peek(ctx context.Context, customer string) (Decision, error) {
	if t.observers.none() {
		return t.tracker.Peek(ctx, customer)
	}
	start := time.Now()
	decision, err := t.tracker.Peek(ctx, customer)
	t.observers.tellOne(ctx, "Peek", customer, 0, start, decision, err)
	return decision, err
}

// Reset implements [Tracker].
func (t *ObservedTracker) Reset(ctx context.Context, customer string) error {
	if t.observers.none() {
		return t.tracker.Reset(ctx, customer)
	}
	start := time.Now()
	err := t.tracker.Reset(ctx, customer)
	t.observers.tell(ctx, "Reset", []string{customer}, 0, start, nil, err)
	return err
}
