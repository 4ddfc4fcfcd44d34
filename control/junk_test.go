package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// junk is what a key may hold that operators have not set.
func junk(w *world) map[string]func() {
	ctx := w.t.Context()
	set := func(key, text string) func() { return func() { check(w.t, w.client.Set(ctx, key, text, 0).Err()) } }
	all := make(map[string]func())
	item := func(rules string) string {
		return `{"version":99,"at":99,"until":0,"by":"x","why":"x","rules":` + rules + `}`
	}
	for _, text := range []string{"", "junk", "1 2", "x 1 2", "-5 1 2", "1.5 1 2", "1 x 2", "1e999 1 2", strings.Repeat("9", 40) + " 1 2", "1 2 3 4", "\x00 \xff x"} {
		all[fmt.Sprintf("a version of %.20q", text)] = set(versionKey, text)
	}
	for _, text := range []string{
		"", "junk", "null", "[]", "{}", `{"version":5}`, item(`7`), item(`{"thresholds":[1,2]}`), item(`{"threshold":[1]}`), item(`{}`)[:60], item(`{}`) + "x",
		`{"format":2,"x":1}`, `{"version":1,"at":1,"until":0,"format":2,"rules":{}}`, item(`{"thresholds":[` + strings.Repeat("0,", 300) + `0]}`),
	} {
		all[fmt.Sprintf("rules of %.60q", text)] = set(rulesKey, text)
	}
	all["an item of the history"] = func() { check(w.t, w.client.LPush(ctx, historyKey, "junk", item("null")).Err()) }
	all["an item of the overrides"] = func() { check(w.t, w.client.HSet(ctx, overridesKey, "acme", "junk", "bolt ", "x").Err()) }
	all["an entry of the log"] = func() {
		check(w.t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, Values: []string{"a", "b"}}).Err())
	}
	all["an entry of the log with wrong values"] = func() {
		check(w.t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, ID: "77-0", Values: []string{"at", "x", "item", "policy", "old", "{", "until", "z"}}).Err())
	}
	all["an entry of the log far ahead"] = func() {
		check(w.t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, ID: "18446744073709551615-5", Values: []string{"a", "b"}}).Err())
	}
	for _, key := range []string{versionKey, rulesKey, historyKey, overridesKey, logKey} {
		name := key[strings.LastIndex(key, ":")+1:]
		all["a set in "+name] = func() { w.delete(key); check(w.t, w.client.SAdd(ctx, key, "junk").Err()) }
		if key != versionKey && key != rulesKey {
			all["a string in "+name] = set(key, "junk")
		}
	}
	return all
}

// Whatever a key holds: a change is made or it is not, as the Admin says, and nothing is
// made by halves. Workers go on by what they know, and say why. Overrides hold.
func TestJunkInEachKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	policy := w.apply(strict())
	override := w.override("acme", pinned(2))
	good := w.contents()
	known := []error{control.ErrCorrupt, control.ErrNewer, control.ErrLost, priority.ErrInvalid}
	isKnown := func(err error) bool {
		for _, kind := range known {
			if errors.Is(err, kind) {
				return true
			}
		}
		return err == nil
	}
	changes := map[string]func() (int64, error){
		"SetOverride": func() (int64, error) { return w.admin.SetOverride(ctx, "acme", pinned(3), time.Hour, demo(override)) },
		"another's":   func() (int64, error) { return w.admin.SetOverride(ctx, "bolt", pinned(3), time.Hour, demo(0)) },
		"EndOverride": func() (int64, error) { return w.admin.EndOverride(ctx, "acme", demo(override)) },
		"Apply":       func() (int64, error) { return w.admin.Apply(ctx, only(), demo(policy)) },
		"repair":      func() (int64, error) { return w.admin.Apply(ctx, only(), demo(0)) },
		"Rollback":    func() (int64, error) { return w.admin.Rollback(ctx, policy, demo(policy)) },
		"Withdraw":    func() (int64, error) { return w.admin.Withdraw(ctx, demo(policy)) },
		"NoteReset":   func() (int64, error) { return w.admin.NoteReset(ctx, "acme", demo(0)) },
		"Forget":      func() (int64, error) { done, err := w.admin.Forget(ctx, "acme", demo(0)); return done.Version, err },
	}
	for name, harm := range junk(w) {
		t.Run(name, func(t *testing.T) {
			w := *w
			w.t = t
			w.store = openControl(t, w.client, nil, seldom)
			w.refresh()
			harm()
			harmed := w.contents()
			for call, change := range changes {
				version, err := change()
				if err == nil && version < 1 {
					t.Errorf("%s = %d", call, version)
				}
				if err != nil {
					wantError(t, call, err, control.ErrNotChanged)
					if !w.sameContents(harmed) {
						t.Errorf("%s failed and has changed something: %v", call, err)
					}
				}
				w.restore(harmed)
			}
			for what, store := range map[string]*control.Store{"begins": openControl(t, w.client, nil, seldom), "knows": w.store} {
				err := store.Refresh(ctx)
				if !isKnown(err) || (err == nil) != (store.Status().Err == nil) {
					t.Errorf("a worker that %s: %v", what, err)
				}
				if levels := len(store.PolicyOf("acme").Thresholds) + 1; err != nil && levels != map[string]int{"begins": 9, "knows": 3}[what] && levels != 3 {
					t.Errorf("a worker that %s has %d levels", what, levels)
				}
				w.restore(good)
				check(t, w.client.Set(ctx, w.own.Keys("acme").Override, "=2", time.Hour).Err())
				w.restore(harmed)
				if got := must(store.Next(ctx, "acme"))(t); got.Level != 2 {
					t.Errorf("a worker that %s: %+v", what, got)
				}
			}
			for _, read := range []func() error{
				func() error {
					settings, err := w.admin.Settings(ctx)
					if err == nil && settings.Now.Year() < 2000 {
						t.Errorf("the Admin reads %+v", settings)
					}
					return err
				},
				func() error { _, err := w.admin.Overrides(ctx); return err },
				func() error { _, err := w.admin.Log(ctx, 0, 10); return err },
				func() error { _, err := w.admin.History(ctx); return err },
				func() error { _, err := w.admin.Export(ctx); return err },
			} {
				if err := read(); !isKnown(err) {
					t.Errorf("the Admin reads: %v", err)
				}
			}
			w.restore(good)
			_ = w.store.Refresh(ctx)
			wantPolicy(t, "when it is repaired", w.store, 3)
		})
	}
}

// What an operator repairs by the tools is repaired.
func TestJunkIsNamedAndRepaired(t *testing.T) {
	t.Parallel()
	for text, kind := range map[string]error{
		"junk": control.ErrCorrupt,
		`{"version":9,"at":9,"until":0,"by":"x","why":"x","rules":{"thresholds":"x"}}`: control.ErrCorrupt,
		`{"format":3,"rules":{}}`: control.ErrNewer,
	} {
		w := newWorld(t, nil)
		ctx := t.Context()
		w.apply(strict())
		check(t, w.client.Set(ctx, rulesKey, text, 0).Err())
		must(w.admin.NoteReset(ctx, "acme", demo(0)))(t) // so that workers see another version
		if err := w.store.Refresh(ctx); !errors.Is(err, kind) || !strings.Contains(err.Error(), rulesKey) {
			t.Errorf("%.20s: the worker: %v", text, err)
		}
		settings, err := w.admin.Settings(ctx)
		if !errors.Is(err, kind) || settings.Rules != nil || settings.Version != 2 || settings.Now.IsZero() {
			t.Errorf("%.20s: the Admin: %+v, %v", text, settings, err)
		}
		_, err = w.admin.Apply(ctx, only(), demo(0))
		if kind == control.ErrNewer {
			wantError(t, "Apply over a later format", err, control.ErrNewer, control.ErrNotChanged)
			continue
		}
		check(t, err)
		w.refresh()
		wantPolicy(t, "repaired", w.store, 1)
	}
}
