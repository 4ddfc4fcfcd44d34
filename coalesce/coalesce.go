// Package coalesce answers for customers who send much from memory. Only a reset
// promotes a customer who is at the last level, so their level is known without
// asking; what was answered is written to the store once an interval, for all
// customers together.
package coalesce

import (
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

// Inner is what a [Store] is put around: a *priority.RedisStore, a *memory.Store,
// or an *observe.Store around one of them.
type Inner interface {
	priority.Store
	Settle(ctx context.Context, owed []priority.Owed) ([]priority.Decision, error)
}

// Options configures a [Store]. The zero value works.
type Options struct {
	// Interval is how long a document may be owed to the store, and how long a
	// customer at the last level is answered from memory before the store is asked
	// again. Customers whose count starts afresh within three intervals of that are
	// not answered from memory. At least 1 ms. Default: 1 s.
	Interval time.Duration

	// MaxCustomers is the most customers that are kept in memory, some 250 bytes
	// each and their name; others are asked of the store. Default: 100,000.
	MaxCustomers int

	// OnError is told why documents could not be written to the store, and how many
	// those are. It must be safe for concurrent use, return soon and not use the
	// Store. Default: nobody is told.
	OnError func(err error)
}

const (
	defaultInterval     = time.Second
	defaultMaxCustomers = 100_000
)

// Store is a [priority.Store] around a store, for which customers at the last level
// cost next to nothing. It answers their Next, NextN and NextEach from memory, with
// Estimated set, and settles once an interval, with one conditional script call for
// each customer in one pipeline: count so many more, unless the count was reset.
// All other calls go to the store, and no call waits for a settlement. It pays for
// customers who send more than two documents an interval.
//
// Levels are those of the store. Every document is counted exactly once by the time
// Close has returned nil. What is not exact:
//
//   - Somebody else's Reset takes effect up to two intervals later. Documents that
//     were answered from memory until then are dropped: they belong to the old
//     count. The Store's own Reset takes effect at once.
//   - A customer's reset interval begins when the documents are written, up to an
//     interval after they came. A tier that TierOf changes is noticed as late as a
//     Reset.
//   - The counts are those that this process knows of: Estimated.
//   - A crash loses up to an interval of documents of customers who were at the
//     last level.
//   - What is definitely not counted is written later, until the count would have
//     expired. What has an unknown outcome is not written again, for it may have
//     been counted.
//
// It is safe for concurrent use. Close it before the store's client.
type Store struct {
	inner
	settler  settler
	interval time.Duration
	most     int64 // customers
	onError  func(error)

	seed   maphash.Seed
	shards [64]shard
	ledger ledger
}

type inner = priority.Store

type settler interface {
	Settle(ctx context.Context, owed []priority.Owed) ([]priority.Decision, error)
}

// New returns a Store around a store. Nil opts are the defaults. An error wraps
// [priority.ErrInvalidOption].
func New(store Inner, opts *Options) (*Store, error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w: the store is nil", priority.ErrInvalidOption)
	}
	if _, err := store.Settle(context.Background(), nil); err != nil { // sends nothing
		return nil, err
	}
	if opts == nil {
		opts = &Options{}
	}
	s := &Store{
		inner: store, settler: store, seed: maphash.MakeSeed(),
		interval: opts.Interval, most: int64(opts.MaxCustomers), onError: opts.OnError,
	}
	if s.interval == 0 {
		s.interval = defaultInterval
	}
	if s.interval < time.Millisecond {
		return nil, fmt.Errorf("%w: Interval %v is less than 1 ms", priority.ErrInvalidOption, opts.Interval)
	}
	if s.most == 0 {
		s.most = defaultMaxCustomers
	}
	if s.most < 0 {
		return nil, fmt.Errorf("%w: MaxCustomers %d is negative", priority.ErrInvalidOption, opts.MaxCustomers)
	}
	s.ledger.turn = make(chan struct{}, 1)
	return s, nil
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	if decision, ok := s.answer(ctx, customer, 1); ok {
		return decision, nil
	}
	asked := s.ask(customer)
	decision, err := s.inner.Next(ctx, customer)
	if err == nil {
		s.learn(customer, decision, asked)
	}
	return decision, err
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if last, ok := s.answer(ctx, customer, n); ok {
		decisions := make([]priority.Decision, n)
		for i := range decisions {
			decisions[i] = last
			decisions[i].Count += int64(n - 1 - i)
		}
		return decisions, nil
	}
	asked := s.ask(customer)
	decisions, err := s.inner.NextN(ctx, customer, n)
	if err == nil && n > 0 {
		s.learn(customer, decisions[n-1], asked)
	}
	return decisions, err
}

// NextEach implements [priority.Store]. What cannot be answered from memory is one
// NextEach of the store.
func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := priority.CheckEach(customers); err != nil {
		return nil, err
	}
	decisions := make([]priority.Decision, len(customers))
	var rest []int // the entries that the store is asked for
	var names []string
	var questions []question
	for at, customer := range customers {
		decision, ok := s.answer(ctx, customer, 1)
		if ok {
			decisions[at] = decision
			continue
		}
		rest = append(rest, at)
		names = append(names, customer)
		questions = append(questions, s.ask(customer))
	}
	if len(rest) == 0 {
		return decisions, nil
	}
	answers, err := s.inner.NextEach(ctx, names)
	failures := priority.ItemErrors(err, len(rest))
	var errs []error
	for i, at := range slices.Backward(rest) { // of a customer's decisions the last one is learned
		if failures[i] == nil {
			decisions[at] = answers[i]
			s.learn(names[i], answers[i], questions[i])
			continue
		}
		if errs == nil {
			errs = make([]error, len(customers))
		}
		errs[at] = failures[i]
	}
	if errs != nil {
		return decisions, &priority.BatchError{Errs: errs}
	}
	return decisions, nil
}

// Peek implements [priority.Store]. Its Count includes what is owed.
func (s *Store) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	decision, err := s.inner.Peek(ctx, customer)
	if err != nil {
		return decision, err
	}
	if owed := s.owed(customer); owed > 0 {
		if policy := s.PolicyOf(customer); policy.Level(decision.Count) == policy.Last() {
			decision.Count -= int64(owed)
			decision.Estimated = true
		}
	}
	return decision, nil
}

// Reset implements [priority.Store]. What is owed for the customer is forgotten with
// the count.
func (s *Store) Reset(ctx context.Context, customer string) error {
	end := s.beginReset(customer)
	err := s.inner.Reset(ctx, customer)
	end(err == nil)
	return err
}

// Lease returns that of the store, 0 where it has none.
func (s *Store) Lease() time.Duration {
	if leased, ok := s.inner.(interface{ Lease() time.Duration }); ok {
		return leased.Lease()
	}
	return 0
}

// Override returns what the store makes of a decision of the customer's: the decision
// itself, where it has no overrides.
func (s *Store) Override(customer string, decision priority.Decision) priority.Decision {
	if controlled, ok := s.inner.(interface {
		Override(customer string, decision priority.Decision) priority.Decision
	}); ok {
		return controlled.Override(customer, decision)
	}
	return decision
}
