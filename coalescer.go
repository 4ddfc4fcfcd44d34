package priority

import (
	"context"
	"fmt"
	"hash/maphash"
	"reflect"
	"sync"
	"sync/atomic"
	"time"
)

// CoalescerOptions configures a [Coalescer]. The zero value works.
type CoalescerOptions struct {
	// Interval is how long a customer at the lowest level is answered from
	// memory before the store is asked again, and how long a document may be
	// owed to the store. Customers whose count starts afresh within three
	// Intervals are not answered from memory. Default: 1 s.
	Interval time.Duration

	// MaxCustomers is the most customers that are kept in memory, some 350 bytes
	// each and their name. Default: 100,000.
	MaxCustomers int

	// OnError is told why documents could not be written to the store, or that it
	// is not known whether they were. It must be safe for concurrent use, return
	// soon and not use the Coalescer. Default: nobody is told.
	OnError func(err error)
}

const (
	defaultInterval     = time.Second
	defaultMaxCustomers = 100_000
)

// Coalescer is a [Store] around a store, for which customers who send much cost
// next to nothing. Nothing but a reset raises a customer who is at the lowest
// level. So the Coalescer answers for them from memory, with
// [Decision.Estimated] set, and writes what it has answered with a Peek and a
// NextN now and then: at most once an Interval for each customer. So it pays for
// customers who send more than two documents an Interval. All other calls go to
// the store.
//
// A level is never better than the store's own would be. Every document is
// counted exactly once by the time Close has returned nil. What is not exact:
//
//   - Somebody else's Reset takes effect up to an Interval later, when the
//     Coalescer next asks the store. Documents answered from memory until then
//     are dropped, for they belong to the old count. Its own Reset takes effect
//     at once.
//   - A customer's reset interval begins when the documents are written, up to
//     an Interval after they came. A tier that TierOf changes is noticed up to
//     an Interval later too.
//   - The counts are those that this process knows of: Estimated.
//   - A crash loses up to an Interval of documents of customers who were at the
//     lowest level.
//   - What is surely not counted is written later. What has an unknown outcome
//     is not written again, for it may have been counted. Neither is what could
//     not be written until the count had expired in the store.
//
// Where the store cannot be reached, a [Fallback] around the Coalescer answers.
// It is safe for concurrent use. Close it before the store's client.
type Coalescer struct {
	store    policied
	interval time.Duration
	onError  func(error)

	seed    maphash.Seed
	shards  []shard
	flusher flusher
	closed  atomic.Bool
}

var _ Store = (*Coalescer)(nil)

// NewCoalescer returns a Coalescer around a store with a method
//
//	PolicyOf(customer string) Policy
//
// which the stores of this package have. Nil opts are the defaults. An error
// wraps [ErrInvalidOption].
func NewCoalescer(store Store, opts *CoalescerOptions) (*Coalescer, error) {
	if isNil(store) {
		return nil, fmt.Errorf("%w: the store is nil", ErrInvalidOption)
	}
	policied, ok := store.(policied)
	if !ok {
		return nil, fmt.Errorf("%w: %T has no method PolicyOf(customer string) Policy, which tells the lowest level", ErrInvalidOption, store)
	}
	if opts == nil {
		opts = &CoalescerOptions{}
	}
	if opts.Interval < 0 {
		return nil, fmt.Errorf("%w: Interval %v is negative", ErrInvalidOption, opts.Interval)
	}
	if opts.MaxCustomers < 0 {
		return nil, fmt.Errorf("%w: MaxCustomers %d is negative", ErrInvalidOption, opts.MaxCustomers)
	}
	c := &Coalescer{store: policied, interval: opts.Interval, onError: opts.OnError, seed: maphash.MakeSeed()}
	if c.interval == 0 {
		c.interval = defaultInterval
	}
	customers := opts.MaxCustomers
	if customers == 0 {
		customers = defaultMaxCustomers
	}
	c.shards = newShards(customers)
	c.flusher.flush = c.flush
	return c, nil
}

// Next implements [Store].
func (c *Coalescer) Next(ctx context.Context, customer string) (Decision, error) {
	if err := admit(ctx, "Next", customer); err != nil {
		return Decision{}, err
	}
	decision, answered, err := c.answer(ctx, "Next", customer, 1)
	if answered || err != nil {
		return decision, err
	}
	question := c.question(customer)
	decision, err = c.store.Next(ctx, customer)
	if err != nil {
		return Decision{}, err
	}
	c.learn(customer, decision, question)
	return decision, nil
}

// NextN implements [Store].
func (c *Coalescer) NextN(ctx context.Context, customer string, n int) ([]Decision, error) {
	if err := checkDocuments(customer, n); err != nil || n == 0 {
		return nil, err
	}
	if err := admit(ctx, "NextN", customer); err != nil {
		return nil, err
	}
	last, answered, err := c.answer(ctx, "NextN", customer, n)
	if err != nil {
		return nil, err
	}
	if answered {
		decisions := make([]Decision, n)
		for i := range decisions {
			decisions[i] = last
			decisions[i].Count += int64(n - 1 - i)
		}
		return decisions, nil
	}
	question := c.question(customer)
	decisions, err := c.store.NextN(ctx, customer, n)
	if err != nil {
		return nil, err
	}
	c.learn(customer, decisions[n-1], question)
	return decisions, nil
}

// NextEach implements [Store]. What cannot be answered from memory is one
// NextEach of the store.
func (c *Coalescer) NextEach(ctx context.Context, customers []string) ([]Decision, error) {
	if err := checkCustomers(customers); err != nil || len(customers) == 0 {
		return nil, err
	}
	batch := &BatchError{Errs: make([]error, len(customers))}
	decisions := make([]Decision, len(customers))
	if err := ctx.Err(); err != nil {
		for at, customer := range customers {
			batch.Errs[at] = notCounted("NextEach", customer, err)
		}
		return decisions, batch
	}

	rest, debtors := c.answerEach(customers, places(len(customers)), decisions)
	if len(debtors) > 0 {
		failures := c.settleEach(ctx, debtors)
		able := rest[:0]
		for _, at := range rest {
			if batch.Errs[at] = failures[customers[at]]; batch.Errs[at] == nil {
				able = append(able, at)
			}
		}
		rest, _ = c.answerEach(customers, able, decisions)
	}
	if len(rest) > 0 {
		c.askEach(ctx, customers, rest, decisions, batch.Errs)
	}
	if len(batch.Unwrap()) > 0 {
		return decisions, batch
	}
	return decisions, nil
}

// Peek implements [Store].
func (c *Coalescer) Peek(ctx context.Context, customer string) (Decision, error) {
	if err := admit(ctx, "Peek", customer); err != nil {
		return Decision{}, err
	}
	decision, found := c.look(customer, 0)
	if found == anAnswer {
		return decision, nil
	}
	owed, err := c.owed(ctx, customer)
	if err != nil {
		return Decision{}, err
	}
	decision, err = c.store.Peek(ctx, customer)
	if err != nil {
		return Decision{}, err
	}
	if owed > 0 && !decision.Degraded && decision.Level == c.store.PolicyOf(customer).Lowest() {
		decision.Count -= int64(owed)
		decision.Estimated = true
	}
	return decision, nil
}

// Reset implements [Store]. What is owed for the customer is forgotten with the
// count.
func (c *Coalescer) Reset(ctx context.Context, customer string) error {
	if err := admit(ctx, "Reset", customer); err != nil {
		return err
	}
	end, err := c.beginReset(ctx, customer)
	if err != nil {
		return err
	}
	err = c.store.Reset(ctx, customer)
	end(err)
	return err
}

// PolicyOf returns the policy by which the store decides for a customer, with
// every field filled in.
func (c *Coalescer) PolicyOf(customer string) Policy { return c.store.PolicyOf(customer) }

// Close writes what is owed to the store, and tries again what the store did not
// count until ctx ends. Later calls go straight to the store. After nil nothing
// is owed and no goroutine is left. An error tells how many documents are still
// owed, for which Close may be called again, or that it is not known whether
// some were counted ([ErrOutcomeUnknown]).
func (c *Coalescer) Close(ctx context.Context) error {
	c.closed.Store(true)
	c.flusher.stop()
	return c.settleAll(ctx)
}

// answer answers n documents from memory, and settles what is owed for the
// customer first where it has to. It reports false if the store is to be asked.
func (c *Coalescer) answer(ctx context.Context, operation, customer string, n int) (Decision, bool, error) {
	decision, found := c.look(customer, n)
	if found == aDebt {
		if err := c.settle(ctx, operation, customer, n); err != nil {
			return Decision{}, false, err
		}
		decision, found = c.look(customer, n)
	}
	return decision, found == anAnswer, nil
}

// answerEach answers the entries at some places from memory. It returns the
// places of the rest, and those customers of the rest who are to be settled. From
// a customer's first entry in the rest on, all are: so they stay in order.
func (c *Coalescer) answerEach(customers []string, at []int, decisions []Decision) (rest []int, debtors []string) {
	var inRest map[string]bool
	for _, at := range at {
		customer := customers[at]
		if inRest[customer] {
			rest = append(rest, at)
			continue
		}
		decision, found := c.look(customer, 1)
		if found == anAnswer {
			decisions[at] = decision
			continue
		}
		if inRest == nil {
			inRest = make(map[string]bool)
		}
		inRest[customer] = true
		rest = append(rest, at)
		if found == aDebt {
			debtors = append(debtors, customer)
		}
	}
	return rest, debtors
}

// settleEach settles customers side by side and returns the errors.
func (c *Coalescer) settleEach(ctx context.Context, customers []string) map[string]error {
	var mu sync.Mutex
	failures := make(map[string]error)
	sideBySide(customers, func(customer string) {
		if err := c.settle(ctx, "NextEach", customer, 1); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures[customer] = err
		}
	})
	return failures
}

// askEach asks the store for the entries at some places.
func (c *Coalescer) askEach(ctx context.Context, customers []string, at []int, decisions []Decision, errs []error) {
	asked := make([]string, len(at))
	questions := make([]question, len(at))
	for i, at := range at {
		asked[i] = customers[at]
		questions[i] = c.question(customers[at])
	}
	answers, err := c.store.NextEach(ctx, asked)
	failures := eachError(err, len(at))
	for i, at := range at {
		if errs[at] = failures[i]; errs[at] == nil {
			decisions[at] = answers[i]
			c.learn(asked[i], answers[i], questions[i])
		}
	}
}

func (c *Coalescer) shardOf(customer string) *shard {
	return &c.shards[maphash.String(c.seed, customer)%uint64(len(c.shards))]
}

// places returns 0 to n-1.
func places(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

func isNil(v any) bool {
	value := reflect.ValueOf(v)
	return v == nil || value.Kind() == reflect.Pointer && value.IsNil()
}
