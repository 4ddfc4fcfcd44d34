package simulation

import (
	"context"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/memory"
)

// When an outage ends before all documents are served, or not: the fallback owes
// nothing and is closed, and the bubble ends only when no goroutine of it is left.
func TestOutage_LeavesNothing(t *testing.T) {
	for _, end := range []time.Duration{middle + time.Minute, 1000 * time.Hour} {
		bubble.Test(t, func(t *testing.T) {
			e := experiment(t, "outage", 1)
			w := e.Workload(1)
			w.Outage.To = end
			w.Documents = slices.DeleteFunc(w.Documents, func(d Document) bool { // of the rest there are too many for -race
				return d.Submitted < middle-time.Minute || d.Submitted > middle+2*time.Minute
			})
			by, starts, err := e.serve(Submit, w, 1)
			if err != nil {
				t.Fatal(err)
			}
			o := by.(*byLevel).giver.(*counted).store.(*outage)
			if o.redis.away.Load() || o.Close() != nil || o.over && o.Degraded() || len(starts) != len(w.Documents) || len(o.owed) == 0 {
				t.Errorf("the outage until %v: away %t, degraded %t, over %t, %d served, %d Dones owed",
					end, o.redis.away.Load(), o.Degraded(), o.over, len(starts), len(o.owed))
			}
		})
	}
}

// What is counted in an outage is lost, but no Done.
func TestOutage_LosesNoDones(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clock := new(clock)
		o, err := newOutage(&Workload{Documents: make([]Document, 100), Outage: Span{10, 20}}, memory.Options{Now: clock.Now}, clock)
		if err != nil {
			t.Fatal(err)
		}
		var pending []int64 // at the last Submit of each time
		submit := func(first, documents int) {
			for i := range documents {
				decision, err := o.Submit(context.Background(), "a", priority.Document{ID: strconv.Itoa(first + i)})
				if err != nil {
					t.Fatal(err)
				}
				if i == documents-1 {
					pending = append(pending, decision.Pending)
				}
			}
		}
		submit(0, 5) // before it
		advance(t, o, clock, 10)
		submit(10, 3) // in it
		for i := range 4 {
			if _, err := o.Done(context.Background(), "a", strconv.Itoa(i), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		advance(t, o, clock, 20)
		submit(20, 1) // after it: with one of the first five
		if want := []int64{5, 3, 2}; !slices.Equal(pending, want) {
			t.Errorf("%d documents were pending, want %d", pending, want)
		}
		if err := o.Close(); err != nil {
			t.Error(err)
		}
	})
}

func advance(t *testing.T, o *outage, clock *clock, now time.Duration) {
	t.Helper()
	if err := o.advance(now); err != nil {
		t.Fatal(err)
	}
	clock.set(now)
}

// What was written in the last moments before a failover is lost, Dones too.
func TestFailover_LosesLastWrites(t *testing.T) {
	clock := new(clock)
	f, err := newFailover(&Workload{Failover: Span{10, 20}}, memory.Options{Now: clock.Now}, clock)
	if err != nil {
		t.Fatal(err)
	}
	submit := func(document string) int64 {
		decision, err := f.Submit(t.Context(), "a", priority.Document{ID: document})
		if err != nil {
			t.Fatal(err)
		}
		return decision.Pending
	}
	for _, document := range []string{"one", "two", "three"} {
		submit(document)
	}
	clock.set(10)
	for _, document := range []string{"one", "two"} {
		if _, err := f.Done(t.Context(), "a", document, 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := submit("last"); got != 2 { // and three
		t.Errorf("%d documents are pending, want 2", got)
	}
	clock.set(20)
	if got := submit("after"); got != 4 { // and one, two and three
		t.Errorf("%d documents are pending after the failover, want 4", got)
	}
}
