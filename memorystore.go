package priority

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// MemoryOptions configures a [MemoryStore] or a [MemoryTracker]. The zero value
// works.
type MemoryOptions struct {
	// Policy decides for every customer who has no tier of their own. Default:
	// DefaultPolicy; a zero field takes its value from there.
	Policy Policy

	// Tiers are policies for some of the customers, by the name of the tier.
	// Default: none.
	Tiers map[string]Policy

	// TierOf names a customer's tier; customers of a tier that is not in Tiers
	// have Policy. It must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Now is the clock. It must be safe for concurrent use. Default: time.Now.
	Now func() time.Time

	// Lease is how long a tracker holds a document that nobody finishes for
	// pending: whole milliseconds. About 100 times as long as a document takes to
	// serve is a good choice: with longer leases lost Dones pile up, with shorter
	// ones documents that merely wait are forgotten. A store has no use for it.
	// Default: 180 s.
	Lease time.Duration
}

// MemoryStore is a [Store] whose counts live in this process: for tests, for a
// single worker, and as what a fallback counts with. It decides as a
// [RedisStore] of the same policy does. The zero value is ready to use.
//
// It holds each customer for at most two of its longest reset intervals after
// their last document.
type MemoryStore struct {
	policyOf func(customer string) Policy // nil: the default policy
	clock    func() time.Time

	mu sync.Mutex
	// Counts move to recent when they change. Once in the longest interval
	// recent becomes older and older is dropped: by then all in it have expired.
	recent, older map[string]memoryCount
	longest       time.Duration // of the customers so far
	turned        time.Time
}

type memoryCount struct {
	count   int64
	resetAt time.Time // a document later than this resets the count
}

var _ Store = (*MemoryStore)(nil)

// NewMemoryStore returns a store with no counts. Nil opts are the defaults. An
// error wraps [ErrInvalidPolicy] or [ErrInvalidOption].
func NewMemoryStore(opts *MemoryOptions) (*MemoryStore, error) {
	if opts == nil {
		opts = &MemoryOptions{}
	}
	policies, err := newTiered(opts.Policy, opts.Tiers, opts.TierOf, func(p Policy) Policy { return p })
	if err != nil {
		return nil, err
	}
	return &MemoryStore{policyOf: policies.of, clock: opts.Now}, nil
}

// Next implements [Store].
func (s *MemoryStore) Next(ctx context.Context, customer string) (Decision, error) {
	if err := admit(ctx, "Next", customer); err != nil {
		return Decision{}, err
	}
	policy := s.policy(customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next(policy, customer, s.now()), nil
}

// NextN implements [Store].
func (s *MemoryStore) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := checkDocuments(customer, n); err != nil || n == 0 {
		return nil, err
	}
	if err := admit(ctx, "NextN", customer); err != nil {
		return nil, err
	}
	policy := s.policy(customer)
	decisions := make([]Decision, n)
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i := range decisions {
		decisions[i] = s.next(policy, customer, now)
	}
	return decisions, nil
}

// NextEach implements [Store]. It is atomic.
func (s *MemoryStore) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := checkCustomers(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		errs := make([]error, len(customers))
		for i, customer := range customers {
			errs[i] = notCounted("NextEach", customer, err)
		}
		return make([]Decision, len(customers)), &BatchError{Errs: errs}
	}
	policies := make([]Policy, len(customers))
	for i, customer := range customers {
		policies[i] = s.policy(customer)
	}
	decisions := make([]Decision, len(customers))
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for i, customer := range customers {
		decisions[i] = s.next(policies[i], customer, now)
	}
	return decisions, nil
}

// Peek implements [Store].
func (s *MemoryStore) Peek(ctx context.Context, customer string) (Decision, error) {
	if err := admit(ctx, "Peek", customer); err != nil {
		return Decision{}, err
	}
	policy := s.policy(customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.peek(policy, customer, s.now()), nil
}

// Reset implements [Store].
func (s *MemoryStore) Reset(ctx context.Context, customer string) error {
	if err := admit(ctx, "Reset", customer); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(customer)
	return nil
}

// PolicyOf returns the policy that decides for a customer, with every field
// filled in.
func (s *MemoryStore) PolicyOf(customer string) Policy { return s.policy(customer).filled() }

func (s *MemoryStore) policy(customer string) Policy {
	if s.policyOf == nil {
		return Policy{}
	}
	return s.policyOf(customer)
}

// next counts one document. The caller holds mu.
func (s *MemoryStore) next(policy Policy, customer string, now time.Time) Decision {
	s.longest = max(s.longest, policy.resetInterval())
	s.turn(now)
	held, ok := s.find(customer)
	switch {
	case !ok || now.After(held.resetAt):
		held = memoryCount{count: 0, resetAt: now.Add(policy.resetInterval())}
	case policy.ResetMode == SinceLastReset:
		held.count--
	default:
		held = memoryCount{count: held.count - 1, resetAt: now.Add(policy.resetInterval())}
	}
	s.recent[customer] = held
	return Decision{Level: policy.Level(held.count), Count: held.count, ResetIn: held.resetAt.Sub(now)}
}

// peek returns the last decision. The caller holds mu.
func (s *MemoryStore) peek(policy Policy, customer string, now time.Time) Decision {
	held, ok := s.find(customer)
	if !ok || now.After(held.resetAt) {
		held = memoryCount{resetAt: now}
	}
	return Decision{Level: policy.Level(held.count), Count: held.count, ResetIn: held.resetAt.Sub(now)}
}

func (s *MemoryStore) find(customer string) (memoryCount, bool) {
	held, ok := s.recent[customer]
	if !ok {
		held, ok = s.older[customer]
	}
	return held, ok
}

// forget forgets a count. The caller holds mu.
func (s *MemoryStore) forget(customer string) {
	delete(s.recent, customer)
	delete(s.older, customer)
}

func (s *MemoryStore) turn(now time.Time) {
	switch {
	case s.recent == nil:
	case now.Sub(s.turned) > s.longest:
		s.older = s.recent
	default:
		return
	}
	s.recent = make(map[string]memoryCount)
	s.turned = now
}

func (s *MemoryStore) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// admit refuses a wrong customer, and a call whose context has ended.
func admit(ctx context.Context, operation, customer string) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return notCounted(operation, customer, err)
	}
	return nil
}

func notCounted(operation, customer string, cause error) error {
	return fmt.Errorf("%w: %s %s: %w", ErrNotCounted, operation, quote(customer), cause)
}
