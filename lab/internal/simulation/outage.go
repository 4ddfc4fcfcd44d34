package simulation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
)

// outage is Redis that cannot be reached for a while, behind package fallback. The
// fallback works in real time, in its own goroutines. So virtual time stands still
// at the end of the outage until the fallback has recovered.
type outage struct {
	*fallback.Store
	span  Span
	clock *clock
	redis *unreachable
	owed  map[string]bool // the documents whose Done came during the outage
	over  bool
}

// retryAfter is how often the fallback tries Redis, in real time, and longestRecovery
// when something must be wrong with it.
const (
	retryAfter      = time.Millisecond
	longestRecovery = time.Minute
)

func newOutage(w *Workload, options memory.Options, clock *clock) (*outage, error) {
	primary, err := memory.New(&options)
	if err != nil {
		return nil, err
	}
	o := &outage{span: w.Outage, clock: clock, redis: &unreachable{Store: primary, clock: clock}, owed: make(map[string]bool)}
	o.Store, err = fallback.New(o.redis, &fallback.Options{
		MaxFailures: 1,
		RetryAfter:  retryAfter,
		MaxDones:    max(len(w.Documents), 1),
	})
	return o, err
}

func (o *outage) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	if o.redis.away.Load() {
		o.owed[document] = true
	}
	return o.Store.Done(ctx, customer, document, took)
}

// advance begins and ends the outage when its time has come.
func (o *outage) advance(now time.Duration) error {
	if !o.over && now >= o.span.From {
		o.redis.away.Store(true)
	}
	if !o.over && now >= o.span.To {
		o.over = true
		o.clock.set(o.span.To)
		return o.recover()
	}
	return nil
}

// recover lets Redis work again, and waits until the fallback has noticed and has
// sent the Dones that it owes.
func (o *outage) recover() error {
	o.redis.holdPayments()
	o.redis.away.Store(false)
	ticker := time.NewTicker(retryAfter)
	defer ticker.Stop()
	timeout := time.NewTimer(longestRecovery)
	defer timeout.Stop()
	for o.Degraded() || o.redis.paid() < len(o.owed) {
		select {
		case <-ticker.C:
		case <-timeout.C:
			return fmt.Errorf("the fallback has not recovered: degraded %t, %d of %d Dones paid", o.Degraded(), o.redis.paid(), len(o.owed))
		}
	}
	return o.redis.takePayments()
}

// Close ends the outage, if it is not over, and the fallback's work.
func (o *outage) Close() error {
	o.redis.away.Store(false)
	return o.Store.Close(context.Background())
}

// unreachable is a store that cannot be reached while it is away. It fails in the
// calls that are made here. It is safe for concurrent use.
type unreachable struct {
	*memory.Store
	clock *clock
	away  atomic.Bool

	mu       sync.Mutex
	holds    bool
	payments []payment
}

// payment is the Dones of one customer that were owed.
type payment struct {
	customer  string
	documents []string
	took      time.Duration
}

var errAway = fmt.Errorf("%w: Redis cannot be reached", priority.ErrNotCounted)

// Lease is how long the fallback remembers Dones, which it does in real time.
func (*unreachable) Lease() time.Duration { return priority.DefaultLease }

// Now is the fallback's clock, too.
func (u *unreachable) Now() time.Time { return u.clock.Now() }

func (u *unreachable) Next(ctx context.Context, customer string) (priority.Decision, error) {
	if u.away.Load() {
		return priority.Decision{}, errAway
	}
	return u.Store.Next(ctx, customer)
}

func (u *unreachable) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	if u.away.Load() {
		return priority.Decision{}, errAway
	}
	return u.Store.Submit(ctx, customer, document)
}

func (u *unreachable) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	if u.away.Load() {
		return priority.Ended{}, errAway
	}
	return u.Store.Done(ctx, customer, document, took)
}

// DoneLate is how the fallback sends what it owes. No document is submitted twice.
func (u *unreachable) DoneLate(ctx context.Context, customer string, late []priority.Late, took time.Duration) ([]priority.Ended, error) {
	documents := make([]string, len(late))
	for i, document := range late {
		documents[i] = document.ID
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch {
	case u.away.Load():
		return nil, errAway
	case u.holds:
		u.payments = append(u.payments, payment{customer, documents, took})
		return make([]priority.Ended, len(documents)), nil
	}
	return u.Store.DoneN(ctx, customer, documents, took)
}

// holdPayments lets payments wait for takePayments: they come in an order that
// differs from run to run, and averages depend on it.
func (u *unreachable) holdPayments() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.holds = true
}

// paid returns how many documents' Dones have come.
func (u *unreachable) paid() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	documents := 0
	for _, p := range u.payments {
		documents += len(p.documents)
	}
	return documents
}

// takePayments takes the payments in order.
func (u *unreachable) takePayments() (err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	slices.SortFunc(u.payments, func(a, b payment) int { return strings.Compare(a.customer, b.customer) })
	for _, p := range u.payments {
		slices.SortFunc(p.documents, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		_, done := u.Store.DoneN(context.Background(), p.customer, p.documents, p.took)
		err = errors.Join(err, done)
	}
	u.holds, u.payments = false, nil
	return err
}
