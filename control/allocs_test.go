//go:build !race

package control_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// With ten thousand overrides a decision allocates at most once more than without this
// package. The race detector allocates too, so this test is not built with it.
func TestADecisionWithManyOverridesCostsNothing(t *testing.T) {
	w := newWorld(t, nil)
	ctx := t.Context()
	w.many(control.MaxOverrides, 0, time.Hour)
	w.refresh()
	allocations := func(store priority.Store, customer string) float64 {
		return testing.AllocsPerRun(500, func() {
			if _, err := store.Next(ctx, customer); err != nil {
				t.Fatal(err)
			}
		})
	}
	plain := allocations(w.own, "acme")
	for _, customer := range []string{"acme", "many 17"} {
		if got := allocations(w.store, customer); got > plain+1 {
			t.Errorf("%s: %v allocations, %v without", customer, got, plain)
		}
	}
	// and no round trip
	check(t, w.client.ConfigResetStat(ctx).Err())
	for i := range 100 {
		must(w.store.Next(ctx, fmt.Sprint("many ", i)))(t)
	}
	if got := redistest.Calls(t, w.client); got["evalsha"] != 100 || got["hget"]+got["hmget"]+got["hscan"]+got["xrange"] > 0 {
		t.Errorf("100 decisions are %v", got)
	}
}
