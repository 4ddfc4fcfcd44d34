package prioritytest

import (
	"context"
	"slices"
	"sync"

	"github.com/docpriority/priority"
)

// Call is one call of a [Recorder].
type Call struct {
	Operation Operation
	Customers []string            // one, but for a NextEach: its entries
	N         int                 // the documents to count; 0 for a Peek and a Reset
	Decisions []priority.Decision // as returned; none where a call of one decision failed
	Err       error
}

// Recorder is a [priority.Store] around a Store that keeps every call, in the order
// in which they returned. It is safe for concurrent use.
type Recorder struct {
	store priority.Store
	mu    sync.Mutex
	calls []Call
}

var _ priority.Store = (*Recorder)(nil)

// NewRecorder returns a recorder without calls.
func NewRecorder(store priority.Store) *Recorder {
	return &Recorder{store: store}
}

// Calls returns the calls that have returned.
func (r *Recorder) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Next implements [priority.Store].
func (r *Recorder) Next(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := r.store.Next(ctx, customer)
	r.keep(Call{Next, []string{customer}, 1, answered(decision, err), err})
	return decision, err
}

// NextN implements [priority.Store].
func (r *Recorder) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	decisions, err := r.store.NextN(ctx, customer, n)
	r.keep(Call{NextN, []string{customer}, n, slices.Clone(decisions), err})
	return decisions, err
}

// NextEach implements [priority.Store].
func (r *Recorder) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	decisions, err := r.store.NextEach(ctx, customers)
	r.keep(Call{NextEach, slices.Clone(customers), len(customers), slices.Clone(decisions), err})
	return decisions, err
}

// Peek implements [priority.Store].
func (r *Recorder) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := r.store.Peek(ctx, customer)
	r.keep(Call{Peek, []string{customer}, 0, answered(decision, err), err})
	return decision, err
}

// Reset implements [priority.Store].
func (r *Recorder) Reset(ctx context.Context, customer string) error {
	err := r.store.Reset(ctx, customer)
	r.keep(Call{Reset, []string{customer}, 0, nil, err})
	return err
}

// PolicyOf returns the policy by which the store decides for a customer, with
// every field filled in.
func (r *Recorder) PolicyOf(customer string) priority.Policy {
	return policyOf(r.store, customer)
}

func (r *Recorder) keep(call Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, call)
}

func answered(decision priority.Decision, err error) []priority.Decision {
	if err != nil {
		return nil
	}
	return []priority.Decision{decision}
}
