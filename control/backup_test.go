package control_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Redis lost its data: one call brings all of it back, as it was, from a file.
func TestABackupBringsAllBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	change := control.Change{By: "bob", Why: "<contract> 12"}
	w.apply(strict())
	must(w.admin.SetOverride(ctx, "acme", priority.Override{Latest: 2}, 3*time.Hour, change))(t)
	must(w.admin.SetOverride(ctx, "\xff\x00", pinned(1), time.Hour, change))(t)
	must(w.admin.SetOverride(ctx, "short", pinned(1), time.Second, change))(t)
	before := must(w.admin.Export(ctx))(t)
	text := must(json.Marshal(before))(t)
	var backup control.Backup
	check(t, json.Unmarshal(text, &backup))
	if len(backup.Overrides) != 3 || backup.Version != 4 || !reflect.DeepEqual(backup.Rules.Value, before.Rules.Value) {
		t.Fatalf("%s became %+v", text, backup)
	}
	for i := range backup.Overrides {
		if !reflect.DeepEqual(inUTC(backup.Overrides[i]), inUTC(before.Overrides[i])) {
			t.Errorf("%+v became %+v", before.Overrides[i], backup.Overrides[i])
		}
	}

	check(t, w.client.FlushAll(ctx).Err())
	time.Sleep(time.Until(backup.At.Add(1100 * time.Millisecond))) // one is over
	importer := control.Change{By: "mary", Why: "the data was lost"}
	got := must(w.admin.Import(ctx, &backup, importer))(t)
	if want := (control.Imported{Version: 7, Rules: true, Overrides: 2, Over: 1}); got != want {
		t.Errorf("Import = %+v, want %+v", got, want)
	}
	check(t, w.store.Refresh(ctx))
	wantPolicy(t, "imported", w.store, 3)
	if got := w.settings().Rules; got.By != "mary" || got.Version != 5 {
		t.Errorf("rules %+v", got)
	}
	held := must(w.admin.OverrideOf(ctx, "acme"))(t)
	if d := held.Until.Sub(backup.Overrides[0].Until).Abs(); !held.InForce || held.By != "bob" || held.Why != change.Why || held.Value.Latest != 2 || d > time.Minute {
		t.Errorf("%+v, its end moved by %v", held, d)
	}
	for _, entry := range must(w.admin.Log(ctx, 0, 10))(t) {
		if entry.By != "mary" || entry.Why != importer.Why {
			t.Errorf("%+v", entry)
		}
	}

	// once more nothing is changed; what was lost beside the counts is put in force again
	contents := w.contents()
	check(t, w.client.Del(ctx, w.own.Keys("acme").Override).Err())
	got = must(w.admin.Import(ctx, &backup, importer))(t)
	if got.Kept != 0 || got.Overrides != 2 {
		t.Errorf("once more: %+v", got)
	}
	w.wantContents(contents)
	w.wantLevel(w.store, "acme", 1, 1)

	// what was decided since is kept
	must(w.admin.SetOverride(ctx, "acme", pinned(7), time.Hour, demo(held.Version)))(t)
	w.apply(only())
	got = must(w.admin.Import(ctx, &backup, importer))(t)
	if got.Kept != 2 || got.Overrides != 1 || got.Rules {
		t.Errorf("after other decisions: %+v", got)
	}
	wantPolicy(t, "after other decisions", w.store, 1)
	w.wantLevel(w.store, "acme", 7, 1)
}

func inUTC(held control.Held) control.Held {
	held.At, held.Until = held.At.UTC(), held.Until.UTC()
	return held
}

func TestABackupThatIsWrongChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for text, want := range map[string]error{
		`x`: nil, `[]`: control.ErrCorrupt, `{}`: control.ErrCorrupt, `"x"`: control.ErrCorrupt, `{"format":2}`: control.ErrNewer, `{"format":2,"rules":7}`: control.ErrNewer,
		`{"format":1,"overrides":[{"customer":"a","value":"=x"}]}`: control.ErrCorrupt,
		`{"format":1,"rules":{"value":{"thresholds":[1,2]}}}`:      control.ErrCorrupt,
		`{"format":1,"overrides":{}}`:                              control.ErrCorrupt,
	} {
		var backup control.Backup
		if err := json.Unmarshal([]byte(text), &backup); err == nil || !errors.Is(err, want) && want != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	item := control.Item[priority.Override]{Value: pinned(1), By: "x", Why: "x", Until: time.Now().Add(time.Hour)}
	long := item
	long.Value = pinned(1000)
	nobodys := item
	nobodys.By = ""
	for name, backup := range map[string]*control.Backup{
		"no customer":     {Overrides: []control.Held{{Item: item}}},
		"a long customer": {Overrides: []control.Held{{Customer: strings.Repeat("x", 513), Item: item}}},
		"a wrong level":   {Overrides: []control.Held{{Customer: "acme", Item: long}}},
		"nobody's":        {Overrides: []control.Held{{Customer: "acme", Item: nobodys}}},
		"too many levels": {Rules: &control.Item[control.Rules]{Value: control.Rules{Policy: priority.Policy{Turns: 4}}, By: "x", Why: "x"}},
		"too many":        {Overrides: make([]control.Held, control.MaxOverrides+1)},
	} {
		if got, err := w.admin.Import(t.Context(), backup, demo(0)); err == nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if _, err := w.admin.Import(t.Context(), &control.Backup{}, control.Change{By: "x"}); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("for nothing: %v", err)
	}
	if n := w.client.DBSize(t.Context()).Val(); n > 0 {
		t.Errorf("%d keys", n)
	}
}

// Rules that were withdrawn since the export stay so.
func TestImportLeavesRulesWithdrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	w.apply(strict())
	backup := must(w.admin.Export(ctx))(t)
	must(w.admin.Withdraw(ctx, demo(backup.Rules.Version)))(t)
	contents := w.contents()
	if got := must(w.admin.Import(ctx, backup, demo(0)))(t); got != (control.Imported{Kept: 1}) {
		t.Errorf("Import = %+v", got)
	}
	w.wantContents(contents)
}
