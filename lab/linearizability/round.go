package linearizability

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/docpriority/priority"
)

// workload is what the callers of a round do. Short rounds with customers of
// their own keep each customer's history short, for the time that a check takes
// grows fast with the calls that overlap and the outcomes that are unknown.
type workload struct {
	stores    []priority.Store // shared evenly by the callers
	callers   int
	calls     int // of each caller
	customers int // who are called for in a round
	saboteur  *saboteur

	// Of so many calls, one is given up by its caller while it is under way; 0:
	// none. Redis may run it after that.
	abandonOneIn int
}

// round has all callers call at once and returns the history of it. Rounds of
// different names have different customers.
func (w *workload) round(ctx context.Context, name string) (*history, error) {
	customers := make([]string, w.customers)
	for i := range customers {
		customers[i] = fmt.Sprintf("%s-%d", name, i)
	}
	h := newHistory()
	failures := make([]error, w.callers)
	var callers sync.WaitGroup
	for id := range w.callers {
		c := caller{id: id, store: w.stores[id%len(w.stores)], history: h}
		callers.Go(func() {
			for range w.calls {
				if err := w.saboteur.strike(ctx); err != nil {
					failures[id] = fmt.Errorf("do harm: %w", err)
					return
				}
				w.call(ctx, c, customers)
			}
		})
	}
	callers.Wait()
	for _, err := range failures {
		if err != nil {
			return nil, err
		}
	}
	// What the customers' counts are in the end belongs to what was seen.
	last := caller{id: w.callers, store: w.stores[0], history: h}
	for _, customer := range customers {
		last.call(ctx, call{operation: peek, customer: customer})
	}
	return h, nil
}

// call makes one call, of any kind.
func (w *workload) call(ctx context.Context, c caller, customers []string) {
	if w.abandonOneIn > 0 && rand.IntN(w.abandonOneIn) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(500*time.Microsecond))
		defer cancel()
	}
	customer := customers[rand.IntN(len(customers))]
	switch chance := rand.IntN(100); {
	case chance < 55:
		c.call(ctx, call{operation: next, customer: customer})
	case chance < 70:
		c.call(ctx, call{operation: nextN, customer: customer, documents: 1 + rand.IntN(5)})
	case chance < 75:
		c.nextEach(ctx, customers)
	case chance < 96:
		c.call(ctx, call{operation: peek, customer: customer})
	default:
		c.call(ctx, call{operation: reset, customer: customer})
	}
}
