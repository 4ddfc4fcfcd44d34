package control_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// An override holds for the next document of every worker, and nobody follows anything.
func TestAnOverrideHoldsAtOnceAndUntilItsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	for name, store := range map[string]priority.Store{
		"control":   w.store,
		"a reader":  openStore(t, w.client, &priority.RedisOptions{Overrides: true}),
		"no reader": w.own,
	} {
		version := must(w.admin.SetOverride(ctx, name, pinned(5), time.Hour, demo(0)))(t)
		want := priority.Decision{Level: 5, Ruled: 1}
		if name == "no reader" {
			want = priority.Decision{Level: 1}
		}
		w.wantLevel(store, name, want.Level, want.Ruled)
		must(w.admin.SetOverride(ctx, name, priority.Override{Earliest: 7}, time.Hour, demo(version)))(t)
		if want.Ruled > 0 {
			want.Level = 7
		}
		w.wantLevel(store, name, want.Level, want.Ruled)
		held := must(w.admin.OverrideOf(ctx, name))(t)
		if held == nil || !held.InForce || held.By != "mary" || held.Why != "a demo" || held.Value != (priority.Override{Earliest: 7}) ||
			held.Until.Sub(held.At) != time.Hour || held.Version != version+1 {
			t.Fatalf("%+v", held)
		}
		if lasts := w.client.PTTL(ctx, w.own.OverrideKey(name)).Val(); lasts > time.Hour || lasts < 59*time.Minute {
			t.Errorf("the key lasts %v", lasts)
		}
		must(w.admin.EndOverride(ctx, name, demo(held.Version)))(t)
		w.wantLevel(store, name, 1, 0)
		if held := must(w.admin.OverrideOf(ctx, name))(t); held != nil {
			t.Errorf("%+v", held)
		}
	}
	must(w.admin.SetOverride(ctx, "short", pinned(5), 30*time.Millisecond, demo(0)))(t)
	await(t, "the override ends", func() bool {
		return len(must(w.admin.Overrides(ctx))(t)) == 0 && must(w.store.Next(ctx, "short"))(t).Ruled == 0
	})
	_, err := w.admin.EndOverride(ctx, "short", demo(0))
	wantError(t, "the end of what is over", err, control.ErrNotFound)
}
