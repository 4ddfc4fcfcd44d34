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
)

// Options configures a [Store]. The zero value works.
type Options struct {
	// Policy decides for every customer. A zero field takes its value from
	// priority.DefaultPolicy, which is the default.
	Policy priority.Policy

	// PolicyOf returns a customer's policy, which must be valid, instead of Policy. It must be
	// safe for concurrent use. Default: none.
	PolicyOf func(customer string) priority.Policy

	// Accounts makes a customer "acme/mary" the user mary of the account acme; see
	// priority.RedisOptions. Default: names are not split.
	Accounts bool

	// Levels is how many levels the queue has, at most 255. Default: as many as Policy.
	Levels priority.Level

	// Lease bounds how long a submitted document without a Done counts as
	// pending: whole milliseconds, from 1 s to 24 h. See priority.RedisOptions.
	// Default: 24 h.
	Lease time.Duration

	// MaxEntries bounds what the store remembers: at most that many pending documents, as
	// many customers who submit, and twice as many customers who are counted by Next. Beyond
	// the bound, a new entry replaces the oldest, which is forgotten. An entry takes
	// about 300 bytes. Default: 1,000,000.
	MaxEntries int

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
	policy      priority.Policy
	policyOf    func(customer string) priority.Policy // nil: policy
	levels      priority.Level                        // 0: as many as policy
	lease       time.Duration
	accounts    bool
	most        int // entries; 0: the default
	clock       func() time.Time
	submitCosts fair.Costs // as passed to Submit
	took        fair.Costs // seconds, as passed to Done

	mu sync.Mutex
	// Counts move to recent when they change. Once in the longest interval
	// recent becomes older and older is dropped: by then all in it have expired.
	recent, older map[string]count
	longest       time.Duration // the longest interval so far
	turned        time.Time
	walked        time.Time // when forgetCustomers last ran
	submitted     submitted
	latest        time.Time // what the clock has shown: it may go back
	sweeping      bool      // a timer will sweep
}

type count struct {
	value   int64
	resetAt time.Time // a document later than this resets the count
}

// New returns a store with no counts. Nil opts are the defaults. An error wraps
// [priority.ErrInvalid].
func New(opts *Options) (*Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	if opts.MaxEntries < 0 {
		return nil, fmt.Errorf("%w option: MaxEntries %d is negative", priority.ErrInvalid, opts.MaxEntries)
	}
	if opts.Levels < 0 || opts.Levels > maxLevels {
		return nil, fmt.Errorf("%w option: Levels %d is not 1 to %d", priority.ErrInvalid, opts.Levels, maxLevels)
	}
	lease, err := fair.LeaseOf(opts.Lease)
	if err != nil {
		return nil, fmt.Errorf("%w option: %w", priority.ErrInvalid, err)
	}
	if opts.PolicyOf == nil {
		err = priority.Policies{Policy: opts.Policy}.Validate(opts.Levels)
	}
	if err != nil {
		return nil, err
	}
	return &Store{
		policy: opts.Policy.WithDefaults(), policyOf: opts.PolicyOf, levels: opts.Levels, lease: lease, accounts: opts.Accounts, most: opts.MaxEntries, clock: opts.Now,
	}, nil
}

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
		if count, ok := s.find(customer, now); ok {
			state.Rule = priority.ByCount
			state.Level, state.NextLevel = policy.Level(count.value), policy.Level(count.value-1)
			state.Count, state.ResetIn = count.value, count.resetAt.Sub(now)
		}
		books := s.books(customer, now, s.submitted.find)
		user := &books[0]
		ordinary, flood := user.pending(now)
		scheduled := user.scheduled(now.Add(priority.MaxDelay))
		isKnown := scheduled > 0
		for i := range books {
			ordinary, flood := books[i].pending(now)
			isKnown = isKnown || ordinary+flood+books[i].uncounted > 0 || !now.After(books[i].history.Fades)
		}
		if !isKnown {
			return
		}
		further := make([]int64, len(books))
		recent := user.recent(now, 0)
		for i := range books {
			books[i].add(1000) // the document that arrives now
		}
		load, level, _ := judge(policy, books, now, further, user.average)
		history := user.history.At(now)
		state.Rule, state.Level, state.Load = priority.ByLoad, 0, load
		state.Recent, state.Cost = float64(recent)/1000, float64(user.average)/1000
		state.Pending, state.PendingFlood, state.Scheduled = ordinary+flood, flood, scheduled
		state.Latency, state.Lease = time.Duration(history.Latency)*100*time.Millisecond, history.Lease(s.Lease())
		if newest := user.newest(now); newest != nil {
			state.Level = newest.level
			state.Oldest = now.Sub(user.oldest(now))
		}
		if policy.InOrder {
			level = max(level, min(user.order(now), s.Last()))
		}
		if state.NextLevel = level; len(books) > 1 {
			state.AccountLoad, _, _ = books[1].judge(policy, now, 0, user.average)
			_, state.AccountFlood = books[1].pending(now)
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
		s.submitted.drop(s.submitted.find(customer))
	})
}

// Clear forgets all customers.
func (s *Store) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent, s.older, s.submitted = nil, nil, submitted{}
}

func (s *Store) PolicyOf(customer string) priority.Policy {
	if s.policyOf != nil {
		return s.policyOf(customer).WithDefaults()
	}
	return s.policy.WithDefaults()
}

func (s *Store) Last() priority.Level {
	if s.levels > 0 {
		return s.levels
	}
	return s.policy.Last()
}

// Lease returns the longest time that a document without a Done counts as
// pending.
func (s *Store) Lease() time.Duration {
	if s.lease == 0 {
		return priority.DefaultLease
	}
	return s.lease
}

// Accounts reports whether names are split into accounts and users.
func (s *Store) Accounts() bool { return s.accounts }

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
	if now := clock().Truncate(time.Millisecond); now.After(s.latest) { // as Redis tells the time
		s.latest = now
	}
	return s.latest
}

// forget forgets what has expired. The caller holds mu.
func (s *Store) forget(now time.Time) {
	s.submitted.pass(now)
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
	counted, ok := s.find(customer, now)
	if !ok {
		counted.value = 1 // which the first document makes 0
	}
	if counted.value -= int64(n); !ok || policy.ResetMode == priority.SinceLastUpdate {
		counted.resetAt = now.Add(policy.ResetInterval)
	}
	if _, ok := s.recent[customer]; !ok && len(s.recent) >= s.maxEntries() {
		s.turn(now)
	}
	s.recent[customer] = counted
	delete(s.older, customer)
	level := policy.Level(counted.value)
	return priority.Decision{Level: level, RuleLevel: level, Count: counted.value, ResetIn: counted.resetAt.Sub(now)}
}

// find returns a customer's count, if there is one that has not expired.
func (s *Store) find(customer string, now time.Time) (count, bool) {
	found, ok := s.recent[customer]
	if !ok {
		found, ok = s.older[customer]
	}
	if !ok || now.After(found.resetAt) {
		return count{}, false
	}
	return found, true
}

// policiesOf returns the policy of each entry, and asks once for each customer.
func (s *Store) policiesOf(customers []string) []*priority.Policy {
	policies, byCustomer := make([]*priority.Policy, len(customers)), make(map[string]*priority.Policy)
	for i, customer := range customers {
		if byCustomer[customer] == nil {
			policy := s.PolicyOf(customer)
			byCustomer[customer] = &policy
		}
		policies[i] = byCustomer[customer]
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
