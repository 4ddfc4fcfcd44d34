package control_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// keep returns a function that makes the operators' keys what they are now, as a
// failover to a replica does that lacks the changes since.
func (w *world) keep() (restore func()) {
	w.t.Helper()
	ctx := w.t.Context()
	dumps := make(map[string]string)
	for _, key := range []string{documentKey, endsKey, logKey} {
		dumps[key] = w.client.Dump(ctx, key).Val()
	}
	return func() {
		w.t.Helper()
		for key, dump := range dumps {
			check(w.t, w.client.Del(ctx, key).Err())
			if dump != "" {
				check(w.t, w.client.Restore(ctx, key, 0, dump).Err())
			}
		}
	}
}

// After a failover that lost changes, workers go by what there is, also where the
// changes since have the versions of those that were lost.
func TestAFailoverThatLosesChanges(t *testing.T) {
	t.Parallel()
	type change = func(w *world)
	override := func(level priority.Level) change {
		return func(w *world) {
			version := w.document().Overrides["acme"].Version
			must(w.admin.SetOverride(w.t.Context(), "acme", control.Pin(level), time.Hour, demo(version)))(w.t)
		}
	}
	other := func(level priority.Level) change {
		return func(w *world) {
			version := w.document().Overrides["bolt"].Version
			must(w.admin.SetOverride(w.t.Context(), "bolt", control.Pin(level), time.Hour, demo(version)))(w.t)
		}
	}
	apply := func(rules control.Rules) change {
		return func(w *world) { must(w.admin.Apply(w.t.Context(), rules, demo(w.rulesVersion())))(w.t) }
	}
	withdraw := func(w *world) { must(w.admin.Withdraw(w.t.Context(), demo(w.rulesVersion())))(w.t) }
	four := control.Rules{Policy: priority.Policy{Thresholds: []int64{7, 5, 3}}}
	for name, test := range map[string]struct{ before, lost, after []change }{
		"nothing since":                  {[]change{override(2)}, []change{override(3), override(4)}, nil},
		"another override":               {[]change{override(2)}, []change{override(3)}, []change{override(4)}},
		"more than were lost":            {[]change{override(2)}, []change{override(3)}, []change{other(5), other(6), other(7)}},
		"fewer than were lost":           {[]change{override(2)}, []change{override(3), other(5), other(6)}, []change{override(4)}},
		"other rules":                    {nil, []change{apply(strict())}, []change{apply(four)}},
		"other rules as the third":       {[]change{apply(only()), override(2)}, []change{apply(strict())}, []change{apply(four)}},
		"no rules":                       {[]change{apply(four)}, []change{apply(strict())}, []change{withdraw}},
		"rules that were lost withdrawn": {[]change{apply(four)}, []change{withdraw}, []change{other(5)}},
		"all is lost":                    {nil, []change{apply(strict()), override(3), other(5)}, nil},
		"all is lost and more":           {nil, []change{apply(strict()), override(3)}, []change{other(5), other(6), other(7)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			for _, change := range test.before {
				change(w)
			}
			w.refresh()
			restore := w.keep()
			for _, change := range test.lost {
				change(w)
			}
			w.refresh()
			known := w.document()
			restore()
			for _, change := range test.after {
				change(w)
			}
			w.refresh()
			document := w.document()
			if got := w.store.Status().Document; !sameDocument(got, document) {
				t.Errorf("the worker has %+v, and there is %+v", got, document)
			}
			if got := must(since(w.admin.DocumentSince(t.Context(), known)))(t); !sameDocument(got, document) {
				t.Errorf("from what was known %+v, and there is %+v", got, document)
			}
			fresh := openControl(t, w.client, w.options, seldom)
			check(t, fresh.Refresh(t.Context()))
			if got, want := asked(w.store, "acme"), asked(fresh, "acme"); got != want {
				t.Errorf("acme has %d, of a worker that began %d", got, want)
			}
			if got, want := w.store.PolicyOf("acme"), fresh.PolicyOf("acme"); !reflect.DeepEqual(got, want) {
				t.Errorf("the policy is %v, of a worker that began %v", got, want)
			}
		})
	}
}

// A failover that really happens.
func TestAFailoverToAReplicaThatLacksChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	replica := redistest.StartReplica(t, w.server)
	other := worldOn(t, replica, replica.Client(), nil)
	must(w.admin.Apply(ctx, only(), demo(0)))(t)
	await(t, "the replica has it", func() bool { return replica.Client().Exists(ctx, documentKey).Val() == 1 })
	check(t, replica.Client().Do(ctx, "REPLICAOF", "no", "one").Err())
	must(w.admin.SetOverride(ctx, "acme", control.Pin(4), time.Hour, demo(0)))(t)
	known := w.document()
	must(other.admin.SetOverride(ctx, "bolt", control.Pin(4), time.Hour, demo(0)))(t)
	want := other.document()
	got := must(since(other.admin.DocumentSince(ctx, known)))(t)
	if known.Version != want.Version || !sameDocument(got, want) || len(got.Overrides) != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Of more changes than are read one by one, and where the log has lost them, or the
// keys are gone, a worker has what there is all the same.
func TestFollowingWithoutTheChanges(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(w *world){
		"more than a thousand": func(w *world) { w.many(1500, 100, time.Hour) },
		"a thousand":           func(w *world) { w.many(1000, 100, time.Hour) },
		"the log is trimmed": func(w *world) {
			w.many(20, 100, time.Hour)
			check(w.t, w.client.XTrimMaxLen(w.t.Context(), logKey, 5).Err())
		},
		"the log is gone":              func(w *world) { w.many(20, 100, time.Hour); w.delete(logKey) },
		"the log was gone":             func(w *world) { w.delete(logKey); w.many(20, 100, time.Hour) },
		"the ends are gone":            func(w *world) { w.delete(endsKey); w.many(20, 100, time.Hour) },
		"the document is gone":         func(w *world) { w.delete(documentKey) },
		"the document was gone":        func(w *world) { w.delete(documentKey); w.many(20, 100, time.Hour) },
		"all is gone":                  func(w *world) { check(w.t, w.client.FlushAll(w.t.Context()).Err()) },
		"all was gone":                 func(w *world) { check(w.t, w.client.FlushAll(w.t.Context()).Err()); w.many(20, 100, time.Hour) },
		"all was gone, as many again":  func(w *world) { check(w.t, w.client.FlushAll(w.t.Context()).Err()); w.many(32, 100, time.Hour) },
		"all was gone, more than then": func(w *world) { check(w.t, w.client.FlushAll(w.t.Context()).Err()); w.many(40, 100, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.many(30, 0, time.Hour)
			w.apply(strict())
			must(w.admin.SetOverride(t.Context(), "acme", control.Pin(3), time.Hour, demo(0)))(t)
			w.refresh()
			before := w.document()
			harm(w)
			w.refresh()
			document := w.document()
			if got := w.store.Status().Document; !sameDocument(got, document) {
				t.Errorf("the worker has %d, %d overrides; there is %d, %d", got.Version, len(got.Overrides), document.Version, len(document.Overrides))
			}
			if got := must(since(w.admin.DocumentSince(t.Context(), before)))(t); !sameDocument(got, document) {
				t.Errorf("from what was known %d; there is %d", got.Version, document.Version)
			}
			if got, want := asked(w.store, "many 17"), document.Overrides["many 17"].Value.Latest; got != want && want > 0 {
				t.Errorf("many 17 has %d, want %d", got, want)
			}
			if got, want := w.store.PolicyOf("acme").Last(), priority.Level(3); document.Rules != nil && got != want {
				t.Errorf("the last level is %d, want %d", got, want)
			}
			must(w.admin.SetOverride(t.Context(), "new", control.Pin(2), time.Hour, demo(0)))(t) // and it goes on
			w.refresh()
			if got := asked(w.store, "new"); got != 2 {
				t.Errorf("new has %d", got)
			}
		})
	}
}

func (w *world) delete(key string) {
	w.t.Helper()
	check(w.t, w.client.Del(w.t.Context(), key).Err())
}

// Items may be read from a server that lags behind the one that told the version: some
// clients read from replicas.
func TestAReplicaThatLagsIsNotTakenForTheLatest(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	stale := redistest.Start(t)
	must(w.admin.SetOverride(ctx, "acme", control.Pin(4), time.Hour, demo(0)))(t)
	for _, key := range []string{documentKey, logKey} {
		check(t, stale.Client().Restore(ctx, key, 0, w.client.Dump(ctx, key).Val()).Err())
	}
	must(w.admin.SetOverride(ctx, "acme", control.Pin(5), time.Hour, demo(1)))(t)
	client := &splitClient{Client: w.client}
	client.reads.Store(stale.Client())
	store := closedAtEnd(t, client, priority.RedisOptions{}, seldom)
	_ = store.Refresh(ctx) // it may fail, and it may not claim to know
	if status := store.Status(); status.Document != nil && status.Document.Version == 2 && asked(store, "acme") != 5 {
		t.Errorf("the worker claims version 2 and acme has %d", asked(store, "acme"))
	}
	client.reads.Store(w.client) // it has caught up
	check(t, store.Refresh(ctx))
	if got := asked(store, "acme"); got != 5 {
		t.Errorf("when the replica has caught up acme has %d", got)
	}
}

// Random changes by several operators, right and wrong, with failovers and lost keys
// between them: document, log, model and all who follow agree.
func TestRandomChanges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			m := &model{w: w, random: rand.New(rand.NewPCG(12, seed)), items: make(map[string]string), versions: make(map[string]int64)}
			m.admins = []*control.Admin{w.admin, openAdmin(t, w.server.Client(), nil), openAdmin(t, w.client, nil)}
			restore, kept := w.keep(), m.copy()
			var known *control.Document
			for range 250 {
				m.step(t)
				switch m.random.IntN(30) {
				case 0, 1, 2:
					w.refresh()
				case 3, 4:
					known = must(since(w.admin.DocumentSince(t.Context(), known)))(t)
				case 5:
					restore, kept = w.keep(), m.copy()
				case 6:
					restore()
					m.items, m.versions, m.version, m.made = kept.items, kept.versions, kept.version, kept.made
					kept = m.copy()
				case 7:
					m.check(t, known)
				}
			}
			m.check(t, known)
		})
	}
}

// model is what the document should be. Items are in JSON, by kind and customer.
type model struct {
	w        *world
	random   *rand.Rand
	admins   []*control.Admin
	version  int64
	items    map[string]string
	versions map[string]int64
	made     []string // the items of the log
}

func (m *model) copy() *model {
	return &model{version: m.version, items: maps.Clone(m.items), versions: maps.Clone(m.versions), made: slices.Clone(m.made)}
}

// step makes a change, perhaps one of a wrong version.
func (m *model) step(t *testing.T) {
	t.Helper()
	ctx, admin := t.Context(), m.admins[m.random.IntN(len(m.admins))]
	customer := oddCustomers[m.random.IntN(len(oddCustomers))]
	override := control.Override{Earliest: priority.Level(1 + m.random.IntN(5)), Latest: priority.Level(5 + m.random.IntN(5))}
	rules := control.Rules{Policy: priority.Policy{Thresholds: []int64{m.random.Int64N(100), -m.random.Int64N(100) - 1}}}
	kind := m.random.IntN(6)
	item := []string{"policy", "policy", "override:" + customer, "override:" + customer, "override:" + customer, "reset:" + customer}[kind]
	there := m.versions[item]
	change := demo(there)
	wrong := m.random.IntN(5) == 0 && kind != 5
	if wrong {
		change.Replaces += 1 + m.random.Int64N(3)
	}
	var version int64
	var err error
	value, ends := "", false
	switch kind {
	case 0:
		value = text(t, rules)
		version, err = admin.Apply(ctx, rules, change)
	case 1:
		ends = true
		version, err = admin.Withdraw(ctx, change)
	case 2, 3:
		value = text(t, override)
		version, err = admin.SetOverride(ctx, customer, override, time.Hour, change)
	case 4:
		ends = true
		version, err = admin.EndOverride(ctx, customer, change)
	case 5:
		version, err = admin.NoteReset(ctx, customer, change)
	}
	if wrong || ends && there == 0 {
		if !errors.Is(err, control.ErrNotChanged) {
			t.Fatalf("a wrong change of %.40q: %d, %v", item, version, err)
		}
		return
	}
	m.version++
	if err != nil || version != m.version {
		t.Fatalf("a change of %.40q for %d: %d, %v, want version %d", item, change.Replaces, version, err, m.version)
	}
	m.made = append(m.made, item)
	delete(m.items, item)
	delete(m.versions, item)
	if value != "" {
		m.items[item], m.versions[item] = value, version
	}
}

func text(t *testing.T, value any) string {
	t.Helper()
	return string(must(json.Marshal(value))(t))
}

// check compares the model with all who should know what it is.
func (m *model) check(t *testing.T, known *control.Document) {
	t.Helper()
	document := m.w.document()
	if got := itemsOf(t, document); document.Version != m.version || !maps.Equal(got, m.items) {
		t.Fatalf("version %d with %v, want %d with %v", document.Version, got, m.version, m.items)
	}
	m.w.refresh()
	if got := m.w.store.Status().Document; !sameDocument(got, document) {
		t.Fatalf("the worker has %+v, and there is %+v", got, document)
	}
	if got := must(since(m.w.admin.DocumentSince(t.Context(), known)))(t); !sameDocument(got, document) {
		t.Fatalf("from what was known %+v, and there is %+v", got, document)
	}
	entries := must(m.w.admin.Log(t.Context(), 0, 10_000))(t)
	if len(entries) != len(m.made) {
		t.Fatalf("%d entries, want %d", len(entries), len(m.made))
	}
	replayed := make(map[string]string)
	for i, entry := range slices.Backward(entries) {
		at := len(entries) - 1 - i
		item := entry.Kind
		if entry.Customer != "" {
			item += ":" + entry.Customer
		}
		if entry.Version != int64(at+1) || item != m.made[at] || string(entry.Old) != replayed[item] {
			t.Fatalf("entry %d is %+v, want one of %q", at, entry, m.made[at])
		}
		delete(replayed, item)
		if entry.New != nil {
			replayed[item] = string(entry.New)
		}
	}
	if !maps.Equal(replayed, m.items) {
		t.Fatalf("the log makes %v, want %v", replayed, m.items)
	}
}

// itemsOf returns what a document holds in JSON, by kind and customer.
func itemsOf(t *testing.T, document *control.Document) map[string]string {
	t.Helper()
	items := make(map[string]string)
	if document.Rules != nil {
		items["policy"] = text(t, document.Rules.Value)
	}
	for customer, item := range document.Overrides {
		items["override:"+customer] = text(t, item.Value)
	}
	return items
}
