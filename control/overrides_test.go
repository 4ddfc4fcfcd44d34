package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// What was set by hand is an override; what is none is named, stops no other customer, and
// can be replaced and ended.
func TestOverride_ByHand(t *testing.T) {
	t.Parallel()
	w, ctx, key := start(t), t.Context(), keyOf("acme")
	for text, test := range map[string]struct {
		bounds priority.Bounds
		lasts  time.Duration
	}{
		"<=2": {priority.Bounds{Latest: 2}, 0}, "=3 because": {pinned(3), 2 * time.Hour}, `>=4 {"by":7}`: {priority.Bounds{Earliest: 4}, 0},
		"": {}, "<9>": {}, "1-2 {}": {}, "a hash": {},
	} {
		check(t, w.client.FlushAll(ctx).Err())
		w.set("acme", 9) // it is listed
		if set := w.client.Get(ctx, key).Val(); !strings.HasPrefix(set, `=9 {"by":"mary","why":"a <test>","at":`) {
			t.Errorf("the key holds %s", set)
		}
		w.set("bolt", 4)
		put := func() {
			if check(t, w.client.Set(ctx, key, text, test.lasts).Err()); text == "a hash" {
				w.client.Del(ctx, key)
				w.client.HSet(ctx, key, "a", "b")
			}
		}
		put()
		got, err := w.admin.Override(ctx, "acme")
		all := must(w.admin.Overrides(ctx))(t)
		if test.bounds == (priority.Bounds{}) {
			if wantError(t, text, err, control.ErrCorrupt); len(all) != 1 || all[0].Customer != "bolt" {
				t.Errorf("%s: the list is %+v", text, all)
			}
		} else if err != nil || got.Bounds != test.bounds || got.Until.IsZero() != (test.lasts == 0) || !got.At.IsZero() || len(all) != 2 || all[1].Customer != "acme" {
			t.Errorf("%s: %+v, %v, and the list is %+v", text, got, err, all)
		}
		w.set("acme", 6) // in place of that
		put()
		if _, err := w.admin.EndOverride(ctx, "acme", mary); err != nil || w.client.Exists(ctx, key).Val() > 0 {
			t.Errorf("%s is ended: %v", text, err)
		}
	}
}

// Whichever step fails, or loses its reply: the error names it, and the same change may be
// made again.
func TestOverride_StepFails(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	changes := map[string]func(admin *control.Admin) error{
		"set":    func(a *control.Admin) error { return errOf(a.SetOverride(ctx, "acme", pinned(5), time.Hour, mary)) },
		"end":    func(a *control.Admin) error { return errOf(a.EndOverride(ctx, "acme", mary)) },
		"forget": func(a *control.Admin) error { return errOf(a.Forget(ctx, "acme", mary)) },
		"reset":  func(a *control.Admin) error { return a.Reset(ctx, "acme", mary) },
	}
	for _, test := range []struct {
		change, command, names string
		refused, lost          bool // whether the override is there then
	}{
		{"set", "zadd", overridesKey, false, false},
		{"set", "set", keyOf("acme"), false, true},
		{"set", "xadd", "done, but not logged", true, true},
		{"end", "unlink", keyOf("acme"), true, false},
		{"end", "zrem", overridesKey, true, true},
		{"end", "xadd", "done, but not logged", false, false},
		{"forget", "unlink", "priority:{acme}:count", true, false},
		{"forget", "zrem", overridesKey, true, true},
		{"forget", "xadd", "done, but not logged", false, false},
		{"reset", "xadd", "done, but not logged", true, true},
	} {
		for client, there := range map[*redis.Client]bool{
			w.user("~*", "+@all", "-"+test.command):                                             test.refused,
			w.hooked(test.command, func(next func() error) error { _ = next(); return io.EOF }): test.lost,
		} {
			w.set("acme", 4)
			if test.change == "set" {
				must(w.admin.EndOverride(ctx, "acme", mary))(t)
			}
			what, change := fmt.Sprintf("%s without %s", test.change, test.command), changes[test.change]
			if err := change(newAdmin(t, client)); err == nil || !strings.Contains(err.Error(), test.names) {
				t.Errorf("%s: %v does not name %s", what, err, test.names)
			}
			if (w.client.Exists(ctx, keyOf("acme")).Val() == 1) != there {
				t.Errorf("%s: the override is not there, or still is", what)
			}
			if err := change(w.admin); err != nil && (test.change != "end" || !errors.Is(err, control.ErrNotFound)) {
				t.Errorf("%s, then with it: %v", what, err)
			}
			all, listed := must(w.admin.Overrides(ctx))(t), w.client.ZCard(ctx, overridesKey).Val()
			if want := test.change == "set" || test.change == "reset"; (len(all) == 1) != want || (listed == 1) != want {
				t.Errorf("%s, then with it: %+v, and %d are listed", what, all, listed)
			}
		}
	}
	// A client that tries again after a lost reply does not find what it has removed.
	w.set("acme", 5)
	again := newAdmin(t, w.hooked("unlink", func(next func() error) error { return errors.Join(next(), next()) }))
	if ended := must(again.EndOverride(ctx, "acme", mary))(t); ended == nil || ended.Bounds != pinned(5) {
		t.Errorf("ended: %+v", ended)
	}
}

// Of 10,001 overrides the last one is refused, until others end.
func TestSetOverride_TooMany(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	now := must(w.admin.Now(ctx))(t)
	list := func(customers int, from time.Duration) {
		var listed []redis.Z
		for i := range customers {
			listed = append(listed, redis.Z{Score: float64(now.Add(from).UnixMilli()), Member: i})
		}
		check(t, w.client.ZAdd(ctx, overridesKey, listed...).Err())
	}
	list(control.MaxOverrides-1, time.Hour)
	w.set("last", 4)
	err := errOf(w.admin.SetOverride(ctx, "refused", pinned(6), time.Hour, mary))
	if wantError(t, "one more", err, control.ErrTooMany); w.client.Exists(ctx, keyOf("refused")).Val() > 0 {
		t.Error("one more is in force")
	}
	w.set("last", 7) // in place of one there is room
	list(100, -time.Hour)
	w.set("more", 6)
	if n := w.client.ZCard(ctx, overridesKey).Val(); n != control.MaxOverrides-99 {
		t.Errorf("%d are listed", n)
	}
}

// If an import stops halfway, it may be repeated. What has ended since does not come back, and what
// was set by hand does.
func TestImport(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	for i, customer := range []string{"acme", "\xff}", "ends", "hand", "endless"} {
		must(w.admin.SetOverride(ctx, customer, pinned(3), time.Duration(i+2)*time.Hour, mary))(t)
	}
	check(t, w.client.Set(ctx, keyOf("hand"), `=4 {"by":"joe"}`, 9*time.Hour).Err())
	check(t, w.client.Set(ctx, keyOf("endless"), "=4", 0).Err())
	before, backup := must(w.admin.Export(ctx))(t), new(control.Backup)
	check(t, json.Unmarshal(must(json.Marshal(before))(t), backup))
	check(t, w.client.FlushAll(ctx).Err())
	backup.Overrides[2].Until = must(w.admin.Now(ctx))(t)
	left := 2
	stops := newAdmin(t, w.hooked("set", func(next func() error) error {
		if left--; left < 0 {
			return io.EOF
		}
		return next()
	}))
	_, err := stops.Import(ctx, backup, false, mary)
	if wantError(t, "halfway", err, io.EOF); !strings.Contains(err.Error(), "after 2 overrides") {
		t.Errorf("halfway: %v", err)
	}
	if got := must(w.admin.Import(ctx, backup, true, mary))(t); got != (control.Imported{Overrides: 3, Over: 1}) {
		t.Errorf("Import = %+v", got)
	}
	after := must(w.admin.Export(ctx))(t)
	for i, was := range slices.Delete(before.Overrides, 2, 3) {
		o := after.Overrides[i]
		if o.Customer != was.Customer || o.Bounds != was.Bounds || o.By != was.By || o.Why != was.Why || !o.At.Equal(was.At) || o.Until.Sub(was.Until).Abs() > time.Minute {
			t.Errorf("%+v became %+v", was, o)
		}
	}
	check(t, w.client.Set(ctx, policiesKey, "junk", 0).Err())
	wantError(t, "over junk", errOf(w.admin.Import(ctx, backup, false, mary)), control.ErrCorrupt)
	must(w.admin.Import(ctx, backup, true, mary))(t)
}

func TestImport_Invalid(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	for text, want := range map[string]error{
		`[]`: control.ErrCorrupt, `{"format":1,"id":"w1"}`: control.ErrCorrupt, `{"format":2,"policy":7}`: control.ErrNewer, `{"format":1,"overrides":[{"customer":"a","override":"=x"}]}`: control.ErrCorrupt,
	} {
		wantError(t, text, json.Unmarshal([]byte(text), new(control.Backup)), want)
	}
	one := control.Backup{Overrides: []control.Override{{Bounds: pinned(1), Until: time.Now().Add(time.Hour)}}}
	wantError(t, "no customer", errOf(w.admin.Import(ctx, &one, true, mary)), priority.ErrInvalid)
	many := control.Backup{Overrides: make([]control.Override, control.MaxOverrides+1)}
	wantError(t, "too many", errOf(w.admin.Import(ctx, &many, true, mary)), control.ErrTooMany)
	if w.client.DBSize(ctx).Val() > 0 {
		t.Error("something is imported")
	}
}
