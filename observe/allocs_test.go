//go:build !race

package observe_test

import (
	"context"
	"testing"

	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// Without an observer a call is the store's own; with one it costs an allocation
// for the customer and one for the decision.
func TestObservingCostsNextToNothing(t *testing.T) {
	ctx := context.Background()
	allocations := func(call func()) float64 { return testing.AllocsPerRun(1000, call) }
	plain := new(memory.Store)
	next := allocations(func() { _, _ = plain.Next(ctx, "acme") })
	done := allocations(func() { _, _ = plain.Done(ctx, "acme", "unknown", 0) })
	nobody, nilFunc := observed(t, plain), observed(t, plain, nil)
	somebody := observed(t, plain, func(context.Context, observe.Call) {})
	for _, test := range []struct {
		name string
		most float64
		call func()
	}{
		{"Next, no observer", next, func() { _, _ = nobody.Next(ctx, "acme") }},
		{"Next, a nil observer", next, func() { _, _ = nilFunc.Next(ctx, "acme") }},
		{"Done, no observer", done, func() { _, _ = nobody.Done(ctx, "acme", "unknown", 0) }},
		{"Next, an observer", next + 2, func() { _, _ = somebody.Next(ctx, "acme") }},
	} {
		if got := allocations(test.call); got > test.most {
			t.Errorf("%s: %v allocations a call, want at most %v", test.name, got, test.most)
		}
	}
}
