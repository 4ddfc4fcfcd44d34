package main

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

// workload is callers that call a store, and what they were told.
type workload struct {
	store       priority.Store
	concurrency int
	limit       int64 // of calls; 0: none
	customers   []string

	recorder recorder
	ledger   *ledger.Ledger
	begun    atomic.Int64 // calls, if they are limited
}

func newWorkload(store priority.Store, book *ledger.Ledger, cfg config) *workload {
	w := &workload{store: store, ledger: book, concurrency: cfg.concurrency, limit: cfg.calls, recorder: newRecorder()}
	for i := range cfg.customers {
		w.customers = append(w.customers, fmt.Sprint("customer-", i))
	}
	return w
}

// run calls until the context ends or the calls are over. No call is broken off.
func (w *workload) run(ctx context.Context) {
	var callers sync.WaitGroup
	for range w.concurrency {
		callers.Go(func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
			c := caller{workload: w, random: random, pick: w.picker(random)}
			whole := context.WithoutCancel(ctx)
			for ctx.Err() == nil && (w.limit == 0 || w.begun.Add(1) <= w.limit) {
				c.call(whole)
			}
		})
	}
	callers.Wait()
}

// picker returns a function that picks customers, few of them often.
func (w *workload) picker(random *rand.Rand) func() string {
	const skew = 1.1
	zipf := rand.NewZipf(random, skew, 1, uint64(len(w.customers)-1))
	return func() string { return w.customers[zipf.Uint64()] }
}

// mostDocuments is the most documents of one NextN or NextEach.
const mostDocuments = 20

// caller is one of the callers.
type caller struct {
	*workload
	random  *rand.Rand
	pick    func() string
	pending []document // which it has submitted
}

type document struct {
	customer, id string
	submitted    time.Time
}

// call makes one call and notes what came of it.
func (c *caller) call(ctx context.Context) {
	customer := c.pick()
	switch chance := c.random.IntN(100); {
	case chance < 75 || chance < 80 && len(c.pending) == 0:
		began := time.Now()
		decision, err := c.store.Next(ctx, customer)
		c.recorder.note("Next", time.Since(began), err)
		c.ledger.Note(customer, decision, err)
	case chance < 80:
		last := len(c.pending) - 1
		d := c.pending[last]
		c.pending = c.pending[:last]
		began := time.Now()
		err := c.store.Done(ctx, d.customer, d.id, began.Sub(d.submitted))
		c.recorder.note("Done", time.Since(began), err)
	case chance < 85:
		began := time.Now()
		d := document{customer, fmt.Sprintf("%x", c.random.Uint64()), began}
		decision, err := c.store.Submit(ctx, d.customer, d.id)
		c.recorder.note("Submit", time.Since(began), err)
		c.ledger.Note(d.customer, decision, err)
		if err == nil {
			c.pending = append(c.pending, d)
		}
	case chance < 90:
		n := 2 + c.random.IntN(mostDocuments-1)
		began := time.Now()
		decisions, err := c.store.NextN(ctx, customer, n)
		c.recorder.note("NextN", time.Since(began), err)
		c.ledger.NoteN(customer, n, decisions, err)
	case chance < 95:
		customers := []string{customer}
		for range 1 + c.random.IntN(mostDocuments-1) {
			customers = append(customers, c.pick())
		}
		began := time.Now()
		decisions, err := c.store.NextEach(ctx, customers)
		c.recorder.note("NextEach", time.Since(began), err)
		c.ledger.NoteEach(customers, decisions, err)
	default:
		began := time.Now()
		_, err := c.store.Peek(ctx, customer)
		c.recorder.note("Peek", time.Since(began), err)
	}
}
