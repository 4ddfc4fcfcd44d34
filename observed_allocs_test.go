//go:build !race

package priority_test

import (
	"context"
	"testing"

	"github.com/docpriority/priority"
)

// Without an observer a call is the store's own; with one it costs an allocation
// for the customer and one for the decision.
func TestObservedAllocations(t *testing.T) {
	ctx := context.Background()
	next := func(store priority.Store) func() {
		return func() { _, _ = store.Next(ctx, "acme") }
	}
	done := func(tracker priority.Tracker) func() {
		return func() { _ = tracker.Done(ctx, "acme", "unknown") }
	}
	nobody := []priority.Observer{nil}
	somebody := func(context.Context, priority.Call) {}
	plain := testing.AllocsPerRun(1000, next(new(priority.MemoryStore)))
	tracked := testing.AllocsPerRun(1000, done(new(priority.MemoryTracker)))
	for _, test := range []struct {
		name string
		most float64
		call func()
	}{
		{"a store, no observer", plain, next(priority.NewObservedStore(new(priority.MemoryStore)))},
		{"a store, a nil observer", plain, next(priority.NewObservedStore(new(priority.MemoryStore), nobody...))},
		{"a tracker, no observer", tracked, done(priority.NewObservedTracker(new(priority.MemoryTracker)))},
		{"a store, an observer", plain + 2, next(priority.NewObservedStore(new(priority.MemoryStore), somebody))},
	} {
		if got := testing.AllocsPerRun(1000, test.call); got > test.most {
			t.Errorf("%s: %v allocations a call, want at most %v", test.name, got, test.most)
		}
	}
}
