package simulation

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// counted gives the levels that the module's own store gives: those of Next for
// Rule, and of Submit, with a Done at the end of each service, for Submit.
type counted struct {
	counting string // Rule or Submit
	work     *Workload
	clock    *clock
	store    store
	lostDone float64
	losses   *rand.Rand
}

// store is what is called of a priority.Store.
type store interface {
	Next(ctx context.Context, customer string) (priority.Decision, error)
	Submit(ctx context.Context, customer, document string) (priority.Decision, error)
	Done(ctx context.Context, customer, document string, took time.Duration) error
}

// clock is the virtual time as the module sees it.
type clock struct{ now atomic.Int64 }

func (c *clock) set(now time.Duration) { c.now.Store(int64(now)) }
func (c *clock) Now() time.Time        { return time.Unix(0, c.now.Load()) }

// newCounted returns one with a store in memory, and with the workload's outage or
// failover. The seed decides which Dones are lost.
func newCounted(counting string, w *Workload, o Options, seed uint64) (*counted, error) {
	c := &counted{
		counting: counting,
		work:     w,
		clock:    new(clock),
		lostDone: o.LostDone,
		losses:   rand.New(rand.NewPCG(seed, streamOfLosses)),
	}
	options := memory.Options{Policy: o.Policy, Lease: o.Lease, Now: c.clock.Now}
	var err error
	switch {
	case w.Outage.To > 0:
		c.store, err = newOutage(w, options, c.clock)
	case w.Failover.To > 0:
		c.store, err = newFailover(w, options, c.clock)
	default:
		c.store, err = memory.New(&options)
	}
	return c, err
}

func (c *counted) Submit(document int, now time.Duration) (priority.Level, error) {
	if err := c.advance(now); err != nil {
		return 0, err
	}
	var decision priority.Decision
	var err error
	if c.counting == Rule {
		decision, err = c.store.Next(context.Background(), c.customerOf(document))
	} else {
		decision, err = c.store.Submit(context.Background(), c.customerOf(document), strconv.Itoa(document), 0)
	}
	return decision.Level, err
}

func (c *counted) Done(document int, now time.Duration) error {
	if err := c.advance(now); err != nil {
		return err
	}
	if c.counting == Rule || c.lostDone > 0 && c.losses.Float64() < c.lostDone {
		return nil
	}
	return c.store.Done(context.Background(), c.customerOf(document), strconv.Itoa(document), c.work.Documents[document].Service)
}

// advance lets virtual time pass.
func (c *counted) advance(now time.Duration) (err error) {
	if o, ok := c.store.(*outage); ok {
		err = o.advance(now)
	}
	c.clock.set(now)
	return err
}

// Close ends what the store has begun.
func (c *counted) Close() error {
	if o, ok := c.store.(*outage); ok {
		return o.Close()
	}
	return nil
}

func (c *counted) customerOf(document int) string {
	return c.work.Customers[c.work.Documents[document].Customer]
}
