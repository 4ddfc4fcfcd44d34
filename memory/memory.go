// Package memory is a priority.Store whose numbers live in this process: for tests,
// for a single worker, and for package fallback during an outage.
// It decides as a priority.RedisStore with the same policy does.
package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/typednil"
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// Policy decides for every customer without a tier. A zero field
	// takes its value from priority.DefaultPolicy, which is the default.
	Policy priority.Policy

	// Tiers are policies for some of the customers, by the name of the tier. No
	// tier may have more levels than Policy. Default: no tiers.
	Tiers map[string]priority.Policy

	// TierOf names a customer's tier; for a tier that is not in Tiers, Policy
	// applies. It must be safe for concurrent use. Required with Tiers.
	TierOf func(customer string) string

	// Lease bounds how long a submitted document without a Done counts as
	// pending: whole milliseconds, from 1 s to 24 h. See priority.RedisOptions.
	// Default: 24 h.
	Lease time.Duration

	// MaxEntries bounds what the store remembers: at most that many pending documents, as
	// many customers who submit, and twice as many customers who are counted by Next. Beyond
	// the bound, a new entry replaces the oldest, as if that had never come. An entry takes
	// about 300 bytes. Default: 1,000,000.
	MaxEntries int

	// Like is a store whose current policies and lease, and clock if it is a Store of this
	// package, apply here instead of Policy, Tiers, TierOf and Lease. Default: none.
	Like priority.Store

	// Now is the clock. It must be safe for concurrent use. If it goes back, time
	// stands still meanwhile. Default: time.Now.
	Now func() time.Time
}

// Store is a [priority.Store] in memory. The zero value is ready to use. Every call is
// atomic, except a NextEach, SubmitN or DoneN of more than 1,000 items: after each
// thousand, other calls may come in between.
//
// Options.MaxEntries bounds what it remembers. It deletes what no longer matters, even if no
// call comes: a count, two of the longest reset intervals after the last document; a document
// without a Done, a day after its Submit; and what a customer has submitted recently, a day
// after the last Submit, or up to ten days for customers who submitted much. Deletion lags by
// at most the shorter of the longest reset interval and an hour; with Options.Now, until the
// next call.
type Store struct {
	policies    policies // nil: the default policy
	lease       time.Duration
	most        int // entries; 0: the default
	clock       func() time.Time
	submitCosts fair.Costs // as passed to Submit
	took        fair.Costs // seconds, as passed to Done

	mu sync.Mutex
	// Counts move to recent when they change. Once in the longest interval
	// recent becomes older and older is dropped: by then all in it have expired.
	recent, older map[string]count
	longest       time.Duration // of the intervals so far
	turned        time.Time
	walked        time.Time // when forgetCustomers last ran
	submitted     submitted
	latest        time.Time // of the clock, which may go back
	sweeping      bool      // a timer will sweep
}

type count struct {
	value   int64
	resetAt time.Time // a document later than this resets the count
}

// policies says which policy each customer has.
type policies interface {
	PolicyOf(customer string) priority.Policy
	Last() priority.Level
}

// tiers are the policies of Options.
type tiers struct {
	policy priority.Policy
	tiers  map[string]priority.Policy
	tierOf func(customer string) string
}

func (t tiers) PolicyOf(customer string) priority.Policy {
	if len(t.tiers) > 0 {
		if policy, ok := t.tiers[t.tierOf(customer)]; ok {
			return policy.WithDefaults()
		}
	}
	return t.policy.WithDefaults()
}

func (t tiers) Last() priority.Level { return t.policy.Last() }

// New returns a store with no counts. Nil opts are the defaults. An error wraps
// [priority.ErrInvalid].
func New(opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.MaxEntries < 0 {
		return nil, fmt.Errorf("%w option: MaxEntries %d is negative", priority.ErrInvalid, opts.MaxEntries)
	}
	if opts.Like != nil {
		if typednil.Is(opts.Like) {
			return nil, fmt.Errorf("%w option: Like is a nil %T", priority.ErrInvalid, opts.Like)
		}
		s := &Store{policies: opts.Like, most: opts.MaxEntries, clock: opts.Now}
		if leased, ok := priority.As[leaser](opts.Like); ok {
			s.lease = leased.Lease()
		}
		if other, ok := priority.As[*Store](opts.Like); ok && s.clock == nil {
			s.clock = other.clock
		}
		return s, nil
	}
	lease, err := fair.LeaseOf(opts.Lease)
	if err != nil {
		return nil, fmt.Errorf("%w option: %w", priority.ErrInvalid, err)
	}
	if err := opts.Policy.ValidateTiers(opts.Tiers); err != nil {
		return nil, err
	}
	if len(opts.Tiers) > 0 && opts.TierOf == nil {
		return nil, fmt.Errorf("%w option: Tiers without a TierOf would never be used", priority.ErrInvalid)
	}
	policies := tiers{opts.Policy.WithDefaults(), make(map[string]priority.Policy, len(opts.Tiers)), opts.TierOf}
	for name, tier := range opts.Tiers {
		policies.tiers[name] = tier.WithDefaults()
	}
	return &Store{policies: policies, lease: lease, most: opts.MaxEntries, clock: opts.Now}, nil
}

// leaser knows the longest time that documents are pending.
type leaser interface{ Lease() time.Duration }

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return first(s.NextN(ctx, customer, 1))
}

func (s *Store) NextN(ctx context.Context, customer string, n int) (decisions []priority.Decision, err error) {
	if err := check.N(customer, n); err != nil || n == 0 {
		return nil, err
	}
	policy := s.PolicyOf(customer)
	var last priority.Decision
	if err = s.locked(ctx, "NextN", customer, 0, func(now time.Time) { last = s.next(policy, customer, n, now) }); err != nil {
		return nil, err
	}
	decisions = make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = last
		decisions[i].Count += int64(n - 1 - i)
		decisions[i].Level = policy.Level(decisions[i].Count)
		decisions[i].RuleLevel = decisions[i].Level
	}
	return decisions, nil
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := check.Each(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	policies, decisions := s.policiesOf(customers), make([]priority.Decision, len(customers))
	return decisions, s.inChunks(ctx, "NextEach", customers[0], len(customers), func(from, to int, now time.Time) {
		for i := from; i < to; i++ {
			decisions[i] = s.next(*policies[i], customers[i], 1, now)
		}
	})
}

func (s *Store) Peek(ctx context.Context, customer string) (state priority.State, err error) {
	if err := check.Customer(customer); err != nil {
		return state, err
	}
	policy := s.PolicyOf(customer)
	err = s.locked(ctx, "Peek", customer, 0, func(now time.Time) {
		state.NextLevel = policy.Level(0)
		if held, ok := s.find(customer, now); ok {
			state.Rule = priority.ByCount
			state.Level, state.NextLevel = policy.Level(held.value), policy.Level(held.value-1)
			state.Count, state.ResetIn = held.value, held.resetAt.Sub(now)
		}
		c := s.submitted.of(customer)
		if c == nil {
			return
		}
		history := c.history.At(now)
		lease := history.Lease(s.Lease())
		since := now.Add(-lease)
		pending, ordinary := c.pending(since)
		if pending == 0 && now.After(c.history.Fades) {
			return
		}
		beyond := pending - ordinary
		recent, cost := history.Recent(now), history.Average()
		next := decide(policy, fair.Load(recent+1000, ordinary+1, cost), beyond+1)
		state.Rule, state.Level, state.NextLevel, state.Load = priority.ByLoad, 0, next.Level, next.Load
		state.Recent, state.Cost = float64(recent)/1000, float64(cost)/1000
		state.Pending, state.PendingLast = pending, beyond
		state.Latency, state.Lease = time.Duration(history.Latency)*100*time.Millisecond, lease
		if newest, oldest := c.ends(); newest != nil {
			state.Level, state.Oldest = newest.level, now.Sub(oldest.at)
		}
	})
	state.RuleLevel = state.NextLevel
	return state, err
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	if err := check.Customer(customer); err != nil {
		return err
	}
	return s.locked(ctx, "Reset", customer, 0, func(time.Time) {
		delete(s.recent, customer)
		delete(s.older, customer)
		s.submitted.drop(s.submitted.of(customer))
	})
}

// Clear forgets all customers.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.older, s.submitted = nil, nil, submitted{}
}

// Len returns how many customers the store knows, and how many documents are not
// done.
func (s *Store) Len() (customers, documents int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.len(), s.submitted.documents.Len()
}

// len returns the number of customers. The caller holds mu.
func (s *Store) len() int {
	customers := len(s.submitted.customers)
	for _, counts := range []map[string]count{s.recent, s.older} {
		for customer := range counts {
			if s.submitted.of(customer) == nil {
				customers++
			}
		}
	}
	return customers
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

// Lease returns the longest time that a document without a Done counts as
// pending.
func (s *Store) Lease() time.Duration {
	if s.lease == 0 {
		return priority.DefaultLease
	}
	return s.lease
}

// locked forgets what has expired and calls do, with the store locked. If ctx has
// ended it only returns an error: with n entries, one for each.
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

// inChunks is locked for n items in chunks, and lets others take the lock in
// between. A call that has begun finishes.
func (s *Store) inChunks(ctx context.Context, operation, customer string, n int, do func(from, to int, now time.Time)) error {
	for from := 0; from < n; from += itemsPerLock {
		err := s.locked(ctx, operation, customer, n, func(now time.Time) { do(from, min(from+itemsPerLock, n), now) })
		if err != nil {
			return err
		}
		ctx = context.WithoutCancel(ctx)
	}
	return nil
}

func (s *Store) maxEntries() int { return cmp.Or(s.most, defaultMaxEntries) }

// now returns the time. The caller holds mu.
func (s *Store) now() time.Time {
	clock := s.clock
	if clock == nil {
		clock = time.Now
	}
	if now := clock(); now.After(s.latest) {
		s.latest = now
	}
	return s.latest
}

// forget forgets what has expired. The caller holds mu.
func (s *Store) forget(now time.Time) {
	s.submitted.forgetDocuments(now)
	if now.Sub(s.walked) > time.Hour {
		s.submitted.forgetCustomers(now)
		s.walked = now
	}
	if s.recent == nil || now.Sub(s.turned) > s.longest {
		s.turn(now)
	}
}

// turn forgets the older counts. The caller holds mu.
func (s *Store) turn(now time.Time) {
	s.older, s.recent, s.turned = s.recent, make(map[string]count), now
}

// sweepLater makes the store forget what has expired even if no call comes. The
// caller holds mu.
func (s *Store) sweepLater() {
	s.sweeping = true
	time.AfterFunc(min(max(s.longest, time.Second), time.Hour)+time.Millisecond, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.forget(s.now())
		if s.sweeping = len(s.recent)+len(s.older)+len(s.submitted.customers) > 0; s.sweeping {
			s.sweepLater()
		}
	})
}

// next counts n documents and decides about the last one. The caller holds mu.
func (s *Store) next(policy priority.Policy, customer string, n int, now time.Time) priority.Decision {
	s.longest = max(s.longest, policy.ResetInterval)
	held, ok := s.find(customer, now)
	if !ok {
		held.value = 1 // which the first document makes 0
	}
	if held.value -= int64(n); !ok || policy.ResetMode == priority.SinceLastUpdate {
		held.resetAt = now.Add(policy.ResetInterval)
	}
	if _, ok := s.recent[customer]; !ok && len(s.recent) >= s.maxEntries() {
		s.turn(now)
	}
	s.recent[customer] = held
	delete(s.older, customer)
	level := policy.Level(held.value)
	return priority.Decision{Level: level, RuleLevel: level, Count: held.value, ResetIn: held.resetAt.Sub(now)}
}

// find returns a customer's count, if there is one that has not expired.
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

// policiesOf returns the policy of each entry, and asks once for each customer.
func (s *Store) policiesOf(customers []string) []*priority.Policy {
	policies, known := make([]*priority.Policy, len(customers)), make(map[string]*priority.Policy)
	for i, customer := range customers {
		if known[customer] == nil {
			policy := s.PolicyOf(customer)
			known[customer] = &policy
		}
		policies[i] = known[customer]
	}
	return policies
}

// first returns the only decision, if there is one, or the error of a call for one
// document.
func first[T any](all []T, err error) (only T, _ error) {
	if err != nil {
		return only, itemerrors.Of(err, 1)[0]
	}
	if len(all) > 0 {
		only = all[0]
	}
	return only, nil
}
