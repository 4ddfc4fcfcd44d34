package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
)

// load is callers that call a store, and what they were told.
type load struct {
	Options
	store     priority.Store
	customers []string
	recorder  *recorder
	book      *ledger.Ledger
	begun     atomic.Int64 // calls
}

func newLoad(store priority.Store, book *ledger.Ledger, o Options) *load {
	l := &load{Options: o, store: store, book: book, recorder: newRecorder()}
	for i := range o.Customers {
		l.customers = append(l.customers, fmt.Sprint("customer-", i))
	}
	return l
}

// run calls until the context ends. No call is broken off.
func (l *load) run(ctx context.Context) {
	var callers sync.WaitGroup
	for range l.Callers {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			c := caller{load: l, random: random, zipf: rand.NewZipf(random, 1.1, 1, uint64(len(l.customers)-1))}
			whole := context.WithoutCancel(ctx)
			for ctx.Err() == nil && (l.calls == 0 || l.begun.Add(1) <= l.calls) {
				c.call(whole)
				if l.Rest > 0 {
					rest(ctx, l.Rest)
				}
			}
			for _, d := range c.pending {
				_ = l.store.Done(whole, d.customer, d.id, 0)
			}
		})
	}
	callers.Wait()
}

const (
	mostDocuments = 20  // of one NextN or NextEach
	mostPending   = 100 // of one caller
)

type caller struct {
	*load
	random  *rand.Rand
	zipf    *rand.Zipf
	pending []document // which it has submitted
}

type document struct {
	customer, id string
	submitted    time.Time
}

func (c *caller) pick() string { return c.customers[c.zipf.Uint64()] }

// call makes one call and notes what came of it.
func (c *caller) call(ctx context.Context) {
	customer := c.pick()
	switch chance := c.random.IntN(100); {
	case chance < 75 || chance < 80 && len(c.pending) == 0:
		began := time.Now()
		decision, err := c.store.Next(ctx, customer)
		c.recorder.note("Next", began, err)
		c.book.Note(customer, decision, err)
	case chance < 80:
		last := len(c.pending) - 1
		d := c.pending[last]
		c.pending = c.pending[:last]
		began := time.Now()
		c.recorder.note("Done", began, c.store.Done(ctx, d.customer, d.id, began.Sub(d.submitted)))
	case chance < 85 && len(c.pending) < mostPending:
		d := document{customer, fmt.Sprintf("%x", c.random.Uint64()), time.Now()}
		_, err := c.store.Submit(ctx, d.customer, d.id, 0)
		c.recorder.note("Submit", d.submitted, err)
		if err == nil {
			c.pending = append(c.pending, d)
		}
	case chance < 90:
		n := 2 + c.random.IntN(mostDocuments-1)
		began := time.Now()
		decisions, err := c.store.NextN(ctx, customer, n)
		c.recorder.note("NextN", began, err)
		c.book.NoteN(customer, n, decisions, err)
	case chance < 95:
		customers := []string{customer}
		for range 1 + c.random.IntN(mostDocuments-1) {
			customers = append(customers, c.pick())
		}
		began := time.Now()
		decisions, err := c.store.NextEach(ctx, customers)
		c.recorder.note("NextEach", began, err)
		c.book.NoteEach(customers, decisions, err)
	default:
		began := time.Now()
		_, err := c.store.Peek(ctx, customer)
		c.recorder.note("Peek", began, err)
	}
}
