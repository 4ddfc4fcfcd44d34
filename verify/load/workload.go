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
	ledger   ledger.Ledger
	begun    atomic.Int64 // calls, if they are limited
}

func newWorkload(store priority.Store, cfg config) *workload {
	w := &workload{store: store, concurrency: cfg.concurrency, limit: cfg.calls, recorder: newRecorder()}
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
			pick := w.picker(random)
			whole := context.WithoutCancel(ctx)
			for ctx.Err() == nil && (w.limit == 0 || w.begun.Add(1) <= w.limit) {
				w.call(whole, random, pick)
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

// call makes one call and notes what came of it.
func (w *workload) call(ctx context.Context, random *rand.Rand, pick func() string) {
	customer := pick()
	switch chance := random.IntN(100); {
	case chance < 85:
		began := time.Now()
		decision, err := w.store.Next(ctx, customer)
		w.recorder.note("Next", time.Since(began), err)
		w.ledger.Note(customer, decision, err)
	case chance < 90:
		n := 2 + random.IntN(mostDocuments-1)
		began := time.Now()
		decisions, err := w.store.NextN(ctx, customer, n)
		w.recorder.note("NextN", time.Since(began), err)
		w.ledger.NoteN(customer, n, decisions, err)
	case chance < 95:
		customers := []string{customer}
		for range 1 + random.IntN(mostDocuments-1) {
			customers = append(customers, pick())
		}
		began := time.Now()
		decisions, err := w.store.NextEach(ctx, customers)
		w.recorder.note("NextEach", time.Since(began), err)
		w.ledger.NoteEach(customers, decisions, err)
	default:
		began := time.Now()
		_, err := w.store.Peek(ctx, customer)
		w.recorder.note("Peek", time.Since(began), err)
	}
}
