package priority

import (
	"container/list"
	"context"
	"time"
)

// MemoryTracker is a [Tracker] whose counts live in this process: for tests, for
// a single worker, and as what a fallback decides with. It decides as a
// [RedisTracker] of the same policy does. The zero value is ready to use.
type MemoryTracker struct {
	counts MemoryStore // its mutex guards everything here
	lease  time.Duration

	// leases are those of all customers, the first to end in front.
	leases  list.List // of lease
	held    map[submitted]*list.Element
	pending map[string]int64 // by customer
}

// submitted names a document.
type submitted struct{ customer, document string }

type lease struct {
	submitted
	endsAt time.Time // the document is forgotten later than this
}

var _ Tracker = (*MemoryTracker)(nil)

// NewMemoryTracker returns a tracker with no counts. Nil opts are the defaults.
// An error wraps [ErrInvalidPolicy] or [ErrInvalidOption].
func NewMemoryTracker(opts *MemoryOptions) (*MemoryTracker, error) {
	if opts == nil {
		opts = &MemoryOptions{}
	}
	policies, err := newTiered(opts.Policy, opts.Tiers, opts.TierOf, func(p Policy) Policy { return p })
	if err != nil {
		return nil, err
	}
	t := new(MemoryTracker)
	t.counts.policyOf, t.counts.clock = policies.of, opts.Now
	t.lease, err = leaseOf(opts.Lease)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Submit implements [Tracker].
func (t *MemoryTracker) Submit(ctx context.Context, customer, document string) (Decision, error) {
	decisions, err := t.submit(ctx, "Submit", customer, document)
	if err != nil {
		return Decision{}, err
	}
	return decisions[0], nil
}

// SubmitN implements [Tracker]. It is atomic.
func (t *MemoryTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]Decision, error) {
	return t.submit(ctx, "SubmitN", customer, documents...)
}

func (t *MemoryTracker) submit(ctx context.Context, operation, customer string, documents ...string) ([]Decision, error) {
	if err := checkSubmitted(customer, documents...); err != nil || len(documents) == 0 {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, notCounted(operation, customer, err)
	}
	policy := t.counts.policy(customer)
	decisions := make([]Decision, len(documents))
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	now := t.now()
	for i, document := range documents {
		var byRule Decision
		if t.renew(submitted{customer, document}, now) {
			byRule = t.counts.peek(policy, customer, now)
		} else {
			byRule = t.counts.next(policy, customer, now)
		}
		decisions[i] = tracked(byRule, policy, t.pending[customer])
	}
	for i := range decisions {
		decisions[i].ResetIn = decisions[len(decisions)-1].ResetIn
	}
	return decisions, nil
}

// Done implements [Tracker].
func (t *MemoryTracker) Done(ctx context.Context, customer, document string) error {
	return t.done(ctx, "Done", customer, document)
}

// DoneN implements [Tracker]. It is atomic.
func (t *MemoryTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	return t.done(ctx, "DoneN", customer, documents...)
}

func (t *MemoryTracker) done(ctx context.Context, operation, customer string, documents ...string) error {
	if err := checkSubmitted(customer, documents...); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return notCounted(operation, customer, err)
	}
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	t.now()
	for _, document := range documents {
		if element, ok := t.held[submitted{customer, document}]; ok {
			t.forget(element)
		}
	}
	return nil
}

// Peek implements [Tracker].
func (t *MemoryTracker) Peek(ctx context.Context, customer string) (Decision, error) {
	if err := admit(ctx, "Peek", customer); err != nil {
		return Decision{}, err
	}
	policy := t.counts.policy(customer)
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	now := t.now()
	return tracked(t.counts.peek(policy, customer, now), policy, t.pending[customer]), nil
}

// Reset implements [Tracker].
func (t *MemoryTracker) Reset(ctx context.Context, customer string) error {
	if err := admit(ctx, "Reset", customer); err != nil {
		return err
	}
	t.counts.mu.Lock()
	defer t.counts.mu.Unlock()
	t.counts.forget(customer)
	for element := t.leases.Front(); element != nil && t.pending[customer] > 0; {
		next := element.Next()
		if element.Value.(lease).customer == customer {
			t.forget(element)
		}
		element = next
	}
	return nil
}

// now returns the time, and forgets the documents whose lease has ended by then.
// The caller holds the mutex.
func (t *MemoryTracker) now() time.Time {
	if t.held == nil {
		t.held, t.pending = make(map[submitted]*list.Element), make(map[string]int64)
		if t.lease == 0 {
			t.lease = defaultLease
		}
	}
	now := t.counts.now()
	for element := t.leases.Front(); element != nil && now.After(element.Value.(lease).endsAt); element = t.leases.Front() {
		t.forget(element)
	}
	return now
}

// PolicyOf returns the policy that decides for a customer, with every field
// filled in.
func (t *MemoryTracker) PolicyOf(customer string) Policy { return t.counts.PolicyOf(customer) }

// renew begins a document's lease and reports whether it had one already.
func (t *MemoryTracker) renew(document submitted, now time.Time) bool {
	element, known := t.held[document]
	if known {
		t.leases.MoveToBack(element)
		element.Value = lease{document, now.Add(t.lease)}
		return true
	}
	t.held[document] = t.leases.PushBack(lease{document, now.Add(t.lease)})
	t.pending[document.customer]++
	return false
}

func (t *MemoryTracker) forget(element *list.Element) {
	document := t.leases.Remove(element).(lease).submitted
	delete(t.held, document)
	if t.pending[document.customer]--; t.pending[document.customer] == 0 {
		delete(t.pending, document.customer)
	}
}
