// Package memory is a priority.Store whose counts live in this process: for tests,
// for a single worker, and for what package fallback counts with during an outage.
// It decides as a priority.RedisStore of the same policy does.
package memory

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/leases"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// Policy decides for every customer who has no tier of their own. A zero field
	// takes its value from priority.DefaultPolicy, which is the default.
	Policy priority.Policy

	// Tiers are policies for some of the customers, by the name of the tier. None
	// may have more levels than Policy. Default: none.
	Tiers map[string]priority.Policy

	// TierOf names a customer's tier; customers of a tier that is not in Tiers
	// have Policy. It must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Lease is how long a submitted document that nobody finishes counts as
	// pending: whole milliseconds, at least 1 ms. Default: 180 s.
	Lease time.Duration

	// Now is the clock. It must be safe for concurrent use. Default: time.Now.
	Now func() time.Time
}

// Store is a [priority.Store] in memory. Every call is atomic. The zero value is
// ready to use.
//
// A pending document is forgotten at most two leases after its Submit, and a customer
// at most two of the longest reset intervals and two leases after their last document,
// even if no call comes (with Options.Now, at the next call).
type Store struct {
	policies policies // nil: the default policy
	lease    time.Duration
	clock    func() time.Time

	mu sync.Mutex
	// Counts move to recent when they change. Once in the longest interval
	// recent becomes older and older is dropped: by then all in it have expired.
	recent, older map[string]count
	longest       time.Duration // of the intervals so far
	turned        time.Time
	pending       leases.Set[struct{}]
	sweeping      bool // a timer will sweep
}

type count struct {
	value   int64
	resetAt time.Time // a document later than this resets the count
}

// policies is what a store knows of its customers.
type policies interface {
	PolicyOf(customer string) priority.Policy
	Last() priority.Level
}

// New returns a store with no counts. Nil opts are the defaults. An error wraps
// [priority.ErrInvalidPolicy] or [priority.ErrInvalidOption].
func New(opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	lease, err := priority.LeaseOf(opts.Lease)
	if err != nil {
		return nil, err
	}
	policies, err := priority.NewPolicies(opts.Policy, opts.Tiers, opts.TierOf)
	if err != nil {
		return nil, err
	}
	return &Store{policies: policies, lease: lease, clock: opts.Now}, nil
}

// Like returns a store with no counts and with the policies of another one, and
// its lease where it has a method Lease() time.Duration, as those of this module
// have.
func Like(store priority.Store) *Store {
	s := &Store{policies: store}
	if leased, ok := store.(interface{ Lease() time.Duration }); ok {
		s.lease = leased.Lease()
	}
	return s
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return first(s.NextN(ctx, customer, 1))
}

func (s *Store) NextN(ctx context.Context, customer string, n int) (decisions []priority.Decision, err error) {
	if err := priority.CheckN(customer, n); err != nil || n == 0 {
		return nil, err
	}
	policy := s.PolicyOf(customer)
	err = s.locked(ctx, "NextN", customer, 0, func(now time.Time) {
		decisions = make([]priority.Decision, n)
		for i := range decisions {
			decisions[i] = s.next(policy, customer, now)
		}
	})
	return decisions, err
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := priority.CheckEach(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	policies, decisions := s.policiesOf(customers), make([]priority.Decision, len(customers))
	return decisions, s.locked(ctx, "NextEach", customers[0], len(customers), func(now time.Time) {
		for i, customer := range customers {
			decisions[i] = s.next(policies[i], customer, now)
		}
	})
}

func (s *Store) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	return first(s.SubmitN(ctx, customer, []string{document}))
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []string) ([]priority.Decision, error) {
	if err := priority.CheckDocuments(customer, documents, 0); err != nil || len(documents) == 0 {
		return nil, err
	}
	policy, decisions := s.PolicyOf(customer), make([]priority.Decision, len(documents))
	return decisions, s.locked(ctx, "SubmitN", customer, len(documents), func(now time.Time) {
		end := now.Add(s.Lease())
		for i, document := range documents {
			decide := s.next
			if s.pending.Hold(customer, document, struct{}{}, end) {
				decide = s.peek
			}
			decisions[i] = combined(decide(policy, customer, now), policy, s.pending.LenOf(customer))
		}
		for i := range decisions {
			decisions[i].ResetIn = decisions[len(decisions)-1].ResetIn
		}
	})
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) error {
	_, err := first(nil, s.DoneN(ctx, customer, []string{document}, took))
	return err
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	if err := priority.CheckDocuments(customer, documents, took); err != nil || len(documents) == 0 {
		return err
	}
	return s.locked(ctx, "DoneN", customer, len(documents), func(time.Time) {
		for _, document := range documents {
			s.pending.Release(customer, document)
		}
	})
}

// Settle counts documents that were answered before, as [priority.RedisStore.Settle]
// does.
func (s *Store) Settle(ctx context.Context, owed []priority.Owed) ([]priority.Decision, error) {
	customers := make([]string, len(owed))
	for i, o := range owed {
		if err := o.Check(); err != nil {
			return nil, fmt.Errorf("%w (owed[%d])", err, i)
		}
		customers[i] = o.Customer
	}
	if len(owed) == 0 {
		return nil, nil
	}
	policies, decisions := s.policiesOf(customers), make([]priority.Decision, len(owed))
	var errs []error
	err := s.locked(ctx, "Settle", customers[0], len(owed), func(now time.Time) {
		for i, o := range owed {
			if held, ok := s.find(o.Customer, now); !ok || held.value > o.Known {
				if errs == nil {
					errs = make([]error, len(owed))
				}
				errs[i] = priority.ErrWasReset
				continue
			}
			for range o.Documents {
				decisions[i] = s.next(policies[i], o.Customer, now)
			}
		}
	})
	if errs != nil {
		err = &priority.BatchError{Errs: errs}
	}
	return decisions, err
}

func (s *Store) Peek(ctx context.Context, customer string) (decision priority.Decision, err error) {
	if err := priority.CheckCustomer(customer); err != nil {
		return decision, err
	}
	policy := s.PolicyOf(customer)
	err = s.locked(ctx, "Peek", customer, 0, func(now time.Time) {
		decision = combined(s.peek(policy, customer, now), policy, s.pending.LenOf(customer))
	})
	return decision, err
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	if err := priority.CheckCustomer(customer); err != nil {
		return err
	}
	return s.locked(ctx, "Reset", customer, 0, func(time.Time) {
		delete(s.recent, customer)
		delete(s.older, customer)
		s.pending.Forget(customer)
	})
}

// Clear forgets all customers.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.older, s.pending = nil, nil, leases.Set[struct{}]{}
}

// Len returns how many customers and pending documents the store holds.
func (s *Store) Len() (customers, pending int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.recent) + len(s.older), s.pending.Len()
}

func (s *Store) PolicyOf(customer string) priority.Policy {
	if s.policies == nil {
		return priority.DefaultPolicy()
	}
	return s.policies.PolicyOf(customer)
}

func (s *Store) Last() priority.Level {
	if s.policies == nil {
		return priority.Policy{}.Last()
	}
	return s.policies.Last()
}

// Lease returns how long a submitted document counts as pending.
func (s *Store) Lease() time.Duration {
	if s.lease == 0 {
		return priority.DefaultLease
	}
	return s.lease
}

// locked does something with the store locked and with what is over forgotten,
// unless ctx has ended. Then it returns an error: of n entries, one for each.
func (s *Store) locked(ctx context.Context, operation, customer string, n int, do func(now time.Time)) error {
	if err := ctx.Err(); err != nil {
		err = fmt.Errorf("%w: %s %.80q: %w", priority.ErrNotCounted, operation, customer, err)
		if n == 0 {
			return err
		}
		return &priority.BatchError{Errs: slices.Repeat([]error{err}, n)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	s.forget(now)
	if !s.sweeping && s.clock == nil { // another clock may stand still
		s.sweepLater()
	}
	do(now)
	return nil
}

func (s *Store) now() time.Time {
	if s.clock == nil {
		return time.Now()
	}
	return s.clock()
}

// forget forgets what is over. The caller holds mu.
func (s *Store) forget(now time.Time) {
	s.pending.Expire(now)
	if s.recent == nil || now.Sub(s.turned) > s.longest {
		s.older, s.recent, s.turned = s.recent, make(map[string]count), now
	}
}

// sweepLater has the store forget what is over even if no call comes. The caller
// holds mu.
func (s *Store) sweepLater() {
	s.sweeping = true
	time.AfterFunc(s.Lease(), func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(s.now())
		if len(s.recent)+len(s.older)+s.pending.Len() > 0 {
			s.sweepLater()
		} else {
			s.sweeping = false
		}
	})
}

// next counts one document. The caller holds mu.
func (s *Store) next(policy priority.Policy, customer string, now time.Time) priority.Decision {
	s.longest = max(s.longest, policy.ResetInterval)
	held, ok := s.find(customer, now)
	if !ok {
		held.value = 1 // which the document makes 0
	}
	if held.value--; !ok || policy.ResetMode == priority.SinceLastUpdate {
		held.resetAt = now.Add(policy.ResetInterval)
	}
	s.recent[customer] = held
	delete(s.older, customer)
	return decided(policy, held, now)
}

// peek returns the last decision of next. The caller holds mu.
func (s *Store) peek(policy priority.Policy, customer string, now time.Time) priority.Decision {
	held, ok := s.find(customer, now)
	if !ok {
		held.resetAt = now
	}
	return decided(policy, held, now)
}

func decided(policy priority.Policy, c count, now time.Time) priority.Decision {
	return priority.Decision{Level: policy.Level(c.value), Count: c.value, ResetIn: c.resetAt.Sub(now)}
}

// find returns a customer's count, if there is one that is not over.
func (s *Store) find(customer string, now time.Time) (count, bool) {
	held, ok := s.recent[customer]
	if !ok {
		held, ok = s.older[customer]
	}
	if !ok || now.After(held.resetAt) {
		return count{}, false
	}
	return held, true
}

// combined returns the decision of a customer with some documents pending, from
// that of the rule.
func combined(ruled priority.Decision, policy priority.Policy, pending int) priority.Decision {
	if pending > 0 {
		ruled.Pending = int64(pending)
		ruled.Level = (ruled.Level + policy.Level(1-ruled.Pending) + 1) / 2
	}
	return ruled
}

func (s *Store) policiesOf(customers []string) []priority.Policy {
	policies := make([]priority.Policy, len(customers))
	for i, customer := range customers {
		policies[i] = s.PolicyOf(customer)
	}
	return policies
}

// first returns the only decision, if there is one, or the error of a call for one
// document.
func first(decisions []priority.Decision, err error) (only priority.Decision, _ error) {
	if err != nil {
		return only, priority.ItemErrors(err, 1)[0]
	}
	if len(decisions) > 0 {
		only = decisions[0]
	}
	return only, nil
}
