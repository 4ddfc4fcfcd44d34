//go:build !race

package fleet_test

import (
	"context"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/observe"
)

// A call through a member allocates as much as one through its parts with an observer
// that does nothing. The race detector allocates too, so this test is not built with it.
func TestAMemberAllocatesNoMoreThanItsParts(t *testing.T) {
	client, ctx := redistest.Start(t).Client(), t.Context()
	member := join(t, client, nil)
	own := must(control.New(client, &control.Options{Store: priority.RedisOptions{Overrides: true}}))(t)
	t.Cleanup(func() { _ = own.Close(ended(t)) })
	fallen := must(fallback.New(own, nil))(t)
	parts := observe.New(fallen, func(context.Context, observe.Call) {})
	for name, call := range map[string]func(store priority.Store) error{
		"Next":   func(store priority.Store) error { _, err := store.Next(ctx, "acme"); return err },
		"Submit": func(store priority.Store) error { _, err := store.Submit(ctx, "acme", "d", 0); return err },
		"Done":   func(store priority.Store) error { return store.Done(ctx, "acme", "d", 0) },
	} {
		allocations := func(store priority.Store) float64 {
			return testing.AllocsPerRun(1000, func() {
				if err := call(store); err != nil {
					t.Fatal(err)
				}
			})
		}
		plain, of := allocations(parts), allocations(member)
		t.Logf("%s: %v allocations, %v through its parts, %v through the store alone", name, of, plain, allocations(own))
		if of > plain+1 { // what runs in the background is counted too
			t.Errorf("%s: %v allocations, %v through its parts", name, of, plain)
		}
	}
}
