package control_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

func TestAnOverrideBoundsALevel(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		override          control.Override
		level, last, want priority.Level
	}{
		{control.Pin(3), 1, 9, 3},
		{control.Pin(3), 3, 9, 3},
		{control.Pin(3), 9, 9, 3},
		{control.Pin(1), 9, 9, 1},
		{control.Override{Earliest: 4}, 1, 9, 4},
		{control.Override{Earliest: 4}, 7, 9, 7},
		{control.Override{Latest: 4}, 1, 9, 1},
		{control.Override{Latest: 4}, 7, 9, 4},
		{control.Override{Earliest: 2, Latest: 4}, 1, 9, 2},
		{control.Override{Earliest: 2, Latest: 4}, 3, 9, 3},
		{control.Override{Earliest: 2, Latest: 4}, 9, 9, 4},
		{control.Pin(9), 1, 3, 3}, // beyond the queue's last
		{control.Override{Earliest: 9}, 1, 3, 3},
		{control.Override{Latest: 9}, 3, 3, 3},
		{control.Override{Earliest: 5, Latest: 7}, 1, 3, 3},
		{control.Override{}, 5, 9, 5},
	} {
		if got := test.override.Level(test.level, test.last); got != test.want {
			t.Errorf("%+v makes level %d of %d %d, want %d", test.override, test.level, test.last, got, test.want)
		}
	}
}

func TestAnOverrideSaysWhatItDoes(t *testing.T) {
	t.Parallel()
	for want, override := range map[string]control.Override{
		"pinned to level 2":       control.Pin(2),
		"level 5 at the latest":   {Latest: 5},
		"level 5 at the earliest": {Earliest: 5},
	} {
		if got := override.String(); got != want {
			t.Errorf("%+v: %q, want %q", override, got, want)
		}
	}
}

// What an override changes is the level, and nothing beneath it: the customers with
// one, and one without, are sent the same calls at random.
func TestAnOverrideChangesTheLevelAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	overrides := []control.Override{{}, control.Pin(4), {Earliest: 3}, {Latest: 3}, {Earliest: 2, Latest: 5}}
	customers := make([]string, len(overrides))
	for i, override := range overrides {
		customers[i] = fmt.Sprint("customer ", i)
		if i > 0 {
			w.override(customers[i], override)
		}
	}
	random := rand.New(rand.NewPCG(12, 1))
	for step := range 150 {
		kind, n, document := random.IntN(8), random.IntN(3), fmt.Sprint("document ", random.IntN(12))
		more := []string{document, strconv.Itoa(step), document}
		var plain []priority.Decision
		var plainState priority.State
		for i, customer := range customers {
			decisions, err := decide(t.Context(), w.store, kind, n, customer, more)
			if err != nil {
				t.Fatalf("step %d, kind %d: %v", step, kind, err)
			}
			if i == 0 {
				plain = decisions
			}
			if len(decisions) != len(plain) {
				t.Fatalf("step %d, kind %d: %d decisions and %d", step, kind, len(decisions), len(plain))
			}
			for j, got := range decisions {
				want := plain[j]
				if i > 0 {
					want.Ruled = want.Level
					want.Level = overrides[i].Level(want.Ruled, w.store.Last())
				}
				got.ResetIn, want.ResetIn = 0, 0
				got.Load = math.Round(got.Load) // what was submitted fades
				want.Load = math.Round(want.Load)
				if got != want {
					t.Errorf("step %d, kind %d, %v: %+v, want %+v", step, kind, overrides[i], got, want)
				}
			}
			state := must(w.store.Peek(t.Context(), customer))(t)
			state.ResetIn, state.Oldest, state.Sojourn, state.Lease = 0, 0, 0, 0
			state.Load, state.Lately = math.Round(state.Load), math.Round(state.Lately)
			if i == 0 {
				plainState = state
			}
			want := plainState
			want.NextLevel = overrides[i].Level(want.NextLevel, w.store.Last())
			if state != want {
				t.Errorf("step %d, %v: %+v, want %+v", step, overrides[i], state, want)
			}
		}
	}
}

// decide makes a call of some kind.
func decide(ctx context.Context, store priority.Store, kind, n int, customer string, documents []string) (decisions []priority.Decision, err error) {
	one := func(decision priority.Decision, err error) ([]priority.Decision, error) {
		return []priority.Decision{decision}, err
	}
	switch kind {
	case 0:
		return store.NextN(ctx, customer, n)
	case 1:
		return store.NextEach(ctx, []string{customer, customer, customer})
	case 2, 3:
		return one(store.Submit(ctx, customer, documents[0], 0))
	case 4:
		return store.SubmitN(ctx, customer, documents, nil)
	case 5:
		return nil, store.Done(ctx, customer, documents[0], 0)
	case 6:
		return nil, store.DoneN(ctx, customer, documents[:1], 0)
	}
	return one(store.Next(ctx, customer))
}

// Where some entries fail the others have their overrides, and those that failed
// nothing.
func TestOverridesOfABatchThatFailsInPart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for _, customer := range []string{"acme", "corrupt"} {
		w.counts(customer, 30)
		w.override(customer, control.Pin(2))
	}
	check(t, w.client.Set(t.Context(), w.own.Key("corrupt"), "junk", 0).Err())
	each := []string{"acme", "corrupt", "other", "acme"}
	decisions, err := w.store.NextEach(t.Context(), each)
	var batch *priority.BatchError
	if !errors.As(err, &batch) || len(batch.Errs) != len(each) || len(decisions) != len(each) {
		t.Fatalf("NextEach = %+v, %v", decisions, err)
	}
	for i, want := range []priority.Decision{{Level: 2, Ruled: 9, Count: -30}, {}, {Level: 1}, {Level: 2, Ruled: 9, Count: -31}} {
		got := decisions[i]
		got.ResetIn = 0
		if got != want || errors.Is(batch.Errs[i], priority.ErrCorruptCount) != (i == 1) {
			t.Errorf("%s: %+v, %v, want %+v", each[i], got, batch.Errs[i], want)
		}
	}

	// of a customer whose documents' key is corrupt no document has a level
	check(t, w.client.Set(t.Context(), w.own.PendingKey("corrupt"), "junk", 0).Err())
	decisions, err = w.store.SubmitN(t.Context(), "corrupt", []string{"a", "b"}, nil)
	if !errors.Is(err, priority.ErrCorruptCount) {
		t.Errorf("SubmitN = %v", err)
	}
	for _, got := range decisions {
		if got != (priority.Decision{}) {
			t.Errorf("SubmitN that failed decided %+v", got)
		}
	}
	if got, err := w.store.Next(t.Context(), "corrupt"); err == nil || got != (priority.Decision{}) {
		t.Errorf("Next of a corrupt count = %+v, %v", got, err)
	}
}

func TestAnOverrideBeyondTheLastLevelIsTheLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, &priority.RedisOptions{Policy: priority.Policy{Thresholds: []int64{-2, -4}}})
	w.override("pinned", control.Pin(9))
	w.wantLevel(w.store, "pinned", 3, 1)
	w.override("late", control.Override{Earliest: 5})
	w.wantLevel(w.store, "late", 3, 1)
}

func TestAnOverrideIsReplacedAndEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	version := w.override("acme", control.Pin(5))
	w.wantLevel(w.store, "acme", 5, 1)
	version = must(w.admin.SetOverride(ctx, "acme", control.Pin(7), time.Hour, demo(version)))(t)
	w.refresh()
	w.wantLevel(w.store, "acme", 7, 1)
	must(w.admin.EndOverride(ctx, "acme", demo(version)))(t)
	w.refresh()
	w.wantLevel(w.store, "acme", 1, 0)
	if got := w.document().Overrides; len(got) != 0 {
		t.Errorf("the document has %v", got)
	}
}

// The end is by Redis's clock, by which it was set, and it comes without anybody's
// doing.
func TestAnOverrideEnds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	must(w.admin.SetOverride(ctx, "acme", control.Pin(5), 3*time.Second, demo(0)))(t)
	w.override("bolt", control.Pin(5))
	item := w.document().Overrides["acme"]
	if got := item.Until.Sub(item.At); got != 3*time.Second {
		t.Errorf("it lasts %v", got)
	}
	over := func() bool {
		got := must(w.store.Next(ctx, "acme"))(t)
		return got.Ruled == 0
	}
	await(t, "the override is over", over)
	if now := must(w.client.Time(ctx).Result())(t); now.Before(item.Until) {
		t.Errorf("it ended at %v, and should at %v", now, item.Until)
	}
	if got := w.document().Overrides; len(got) != 1 {
		t.Errorf("the document has %v", got)
	}
	if got := w.store.Status().Document.Overrides; len(got) < 1 {
		t.Errorf("the worker's document has %v", got)
	}
	w.wantLevel(w.store, "bolt", 5, 1)
	// what is over is not there any more
	_, err := w.admin.EndOverride(ctx, "acme", demo(item.Version))
	wantError(t, "EndOverride of one that is over", err, control.ErrNotChanged)
	must(w.admin.SetOverride(ctx, "acme", control.Pin(6), time.Hour, demo(0)))(t)
	w.refresh()
	if got := asked(w.store, "acme"); got != 6 {
		t.Errorf("the next override gives %d", got)
	}
}

func TestAnOverrideEndsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	must(w.admin.SetOverride(t.Context(), "acme", control.Pin(5), 700*time.Millisecond, demo(0)))(t)
	w.override("bolt", control.Pin(5))
	w.server.Kill()
	if got := asked(w.store, "bolt"); got != 5 {
		t.Errorf("bolt has %d", got)
	}
	await(t, "the override is over", func() bool { return asked(w.store, "acme") == 9 })
	if got := asked(w.store, "bolt"); got != 5 {
		t.Errorf("bolt has %d since", got)
	}
}

// A store that decides itself, as one in memory does while Redis is away, has a
// customer's override all the same.
func TestAnOverrideOfADecisionOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.override("acme", control.Override{Latest: 3})
	decision := priority.Decision{Level: 8, Count: -17, Pending: 3, ResetIn: time.Second, Degraded: true}
	want := decision
	want.Level, want.Ruled = 3, 8
	if got := w.store.Override("acme", decision); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := w.store.Override("bolt", decision); got != decision {
		t.Errorf("%+v, want %+v", got, decision)
	}
	// once more is the same: a decision may pass through more than one store
	if got := w.store.Override("acme", want); got != want {
		t.Errorf("the override of what is overridden: %+v, want %+v", got, want)
	}
}

func TestOverridesOfCustomersOfAnyBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	for i, customer := range oddCustomers {
		override := control.Override{Earliest: priority.Level(2 + i%8)}
		must(w.admin.SetOverride(t.Context(), customer, override, time.Hour, demo(0)))(t)
	}
	w.refresh()
	document := w.document()
	if len(document.Overrides) != len(oddCustomers) {
		t.Errorf("%d overrides, want %d", len(document.Overrides), len(oddCustomers))
	}
	for i, customer := range oddCustomers {
		w.wantLevel(w.store, customer, priority.Level(2+i%8), 1)
	}
	for _, customer := range oddCustomers {
		must(w.admin.EndOverride(t.Context(), customer, demo(document.Overrides[customer].Version)))(t)
	}
	w.refresh()
	for _, customer := range oddCustomers {
		if got := asked(w.store, customer); got != 9 {
			t.Errorf("%.40q has level %d when its override is ended", customer, got)
		}
	}
	entries := must(w.admin.Log(t.Context(), 0, 1000))(t)
	if len(entries) != 2*len(oddCustomers) {
		t.Errorf("%d entries", len(entries))
	}
	for i, entry := range entries {
		if want := oddCustomers[len(oddCustomers)-1-i%len(oddCustomers)]; entry.Customer != want {
			t.Errorf("entry %d is of %.40q, want %.40q", i, entry.Customer, want)
		}
	}
}
