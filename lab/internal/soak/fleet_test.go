package soak

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
)

// Each fault is done once, while callers, members and operators go on.
func TestAFleetOutlivesEachFaultExactly(t *testing.T) {
	site := StartSite(t)
	found, err := Run(t.Context(), Options{
		Site: site, Fallback: true, Timeout: 250 * time.Millisecond, For: time.Hour,
		Callers: 8, Customers: 100, Rest: 5 * time.Millisecond, rounds: 1, calm: 400 * time.Millisecond,
	})
	if err != nil || found.Err() != nil {
		t.Fatal(err, found.Err())
	}
	f := found.Fleet
	for _, fault := range faults {
		if f.Faults[fault.name] != 1 {
			t.Errorf("%q was done %d times, want once", fault.name, f.Faults[fault.name])
		}
	}
	if found.Documents.Answered == 0 || found.Documents.Degraded == 0 || f.Made == 0 ||
		f.Small.Documents == 0 || f.Flood.Documents == 0 || f.First.Heap == 0 || f.First.Redis == 0 {
		t.Errorf("%v, %+v", found.Documents, f)
	}
}

func TestWhatIsWrongWithAFleetIsFound(t *testing.T) {
	const mb = 1 << 20
	fine := Process{Heap: 20 * mb, Goroutines: 100, Redis: 30 * mb}
	for name, test := range map[string]struct {
		harm  func(f *Fleet)
		found string
	}{
		"nothing":    {func(*Fleet) {}, ""},
		"heap":       {func(f *Fleet) { f.Last.Heap = 40 * mb }, "the heap grew from 20480 to 40960 KB"},
		"Redis":      {func(f *Fleet) { f.Last.Redis = 60 * mb }, "the data in Redis grew"},
		"goroutines": {func(f *Fleet) { f.Last.Goroutines = 250 }, "goroutines grew from 100 to 250"},
		"pending":    {func(f *Fleet) { f.Pending = 1 }, "1 documents are done, and pending"},
		"a wait":     {func(f *Fleet) { f.Small.Worst = 2 * time.Second }, "a small customer waited for 2s"},
	} {
		f := &Fleet{First: fine, Last: fine, InOrder: time.Second, Small: Waits{Worst: 900 * time.Millisecond}}
		test.harm(f)
		if err := f.Err(); (err == nil) != (test.found == "") || err != nil && !strings.Contains(err.Error(), test.found) {
			t.Errorf("%s: %v, want %q", name, err, test.found)
		}
	}
	samples := []Process{{Heap: 1}, {Heap: 9, Redis: 5}, {Heap: 2}, {Heap: 50}, {Heap: 50}, {Heap: 50}, {Heap: 3}, {Heap: 4}, {Heap: 5}}
	if first, last := quarters(samples); first.Heap != 9 || first.Redis != 5 || last.Heap != 5 || last.Redis != 0 {
		t.Errorf("the quarters are %+v and %+v", first, last)
	}
}

// A document of a small customer is taken before the backlog of a flood.
func TestTheFirstLevelIsTakenFirst(t *testing.T) {
	store, err := memory.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	l := newLine([]priority.Store{store})
	for n := range 100 {
		l.send(t.Context(), n, document{customer: "flood", id: string(rune('a' + n))}, false)
	}
	l.send(t.Context(), 0, document{customer: "small", id: "its first"}, true)
	taken := 0
	for q, ok := l.take(); ok && !q.small; q, ok = l.take() {
		taken++
	}
	if small, flood := l.waits(); taken > 10 || small.Documents != 1 || flood.Documents != int64(taken) {
		t.Errorf("%d documents of the flood were taken before; small %v, flood %v", taken, small, flood)
	}
}

// effectless is a store whose resets do nothing, and which remembers who was forgotten.
type effectless struct{ priority.Store }

func (effectless) Reset(context.Context, string) error { return nil }

func (effectless) Peek(context.Context, string) (priority.State, error) {
	return priority.State{Rule: priority.ByLoad, Pending: 1}, nil
}

func TestAChangeWithoutEffectIsFound(t *testing.T) {
	client := redistest.Start(t).Client()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	admin, err := control.NewAdmin(client, &control.AdminOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for name, found := range map[string]string{"reset": "after a reset the count of acme is -3", "forget": "acme is forgotten, and has"} {
		for _, effect := range []bool{true, false} {
			o := &operators{admin: admin, store: store}
			if !effect {
				o.store = effectless{store}
			}
			change := o.reset
			if name == "forget" {
				change = o.forget
			}
			if err := change(t.Context(), "acme", control.Change{By: "mary", Why: "a test"}); err != nil {
				t.Fatal(name, err)
			}
			if (o.wrong == nil) != effect || o.wrong != nil && !strings.Contains(o.wrong.Error(), found) {
				t.Errorf("%s: with effect %v, %v is found", name, effect, o.wrong)
			}
		}
	}
}
