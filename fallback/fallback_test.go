package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// Package laws has what callers are promised in an outage, on the stack of fleet.Join.

const timeout = 250 * time.Millisecond // of a primary that hangs

var (
	down = prioritytest.Fault{}
	hang = prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Delay: timeout}
)

// world is a Store whose primary fails as it is told.
type world struct {
	*fallback.Store
	t       *testing.T
	primary *prioritytest.FailingStore
	counts  *lateDones // the primary's
	calls   prioritytest.Recorder
	taken   int // calls that take has returned

	changes []string // what OnChange was told
	open    atomic.Bool
}

// lateDones notes the Dones that come late.
type lateDones struct {
	*memory.Store
	calls atomic.Int64
	took  atomic.Int64
}

func (l *lateDones) DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error) {
	l.calls.Add(1)
	l.took.Add(int64(took))
	return l.Store.DoneLate(ctx, customer, documents, took)
}

// test runs a test in virtual time. When it ends, nothing may be left running.
func test(t *testing.T, opts fallback.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		w := &world{t: t}
		w.counts = &lateDones{Store: must(memory.New(&memory.Options{Lease: 10 * time.Minute}))(t)}
		w.primary = prioritytest.NewFailingStore(w.counts)
		if opts.OnChange == nil {
			opts.OnChange = func(open bool, cause error) {
				w.changes = append(w.changes, fmt.Sprint(open, " ", cause))
				w.open.Store(open)
			}
		}
		w.Store = must(fallback.New(must(observe.New(w.primary, w.calls.Observe))(t), &opts))(t)
		test(t, w)
		w.primary.Heal()
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// outage makes the primary fail, and opens the circuit.
func (w *world) outage(fault prioritytest.Fault) {
	w.t.Helper()
	w.primary.Fail(fault)
	for range 10 {
		w.next("whoever", true)
	}
	w.wait(time.Second) // until a probe fails, too
	if !w.open.Load() || !w.Degraded() {
		w.t.Fatalf("open is %t, Degraded is %t after 10 failures", w.open.Load(), w.Degraded())
	}
}

// back lets the primary work again, and waits without any calls until this is noticed.
func (w *world) back() {
	w.t.Helper()
	w.primary.Heal()
	w.wait(7 * time.Second)
	if w.open.Load() || w.Degraded() {
		w.t.Fatalf("open is %t, Degraded is %t 7 s after the outage", w.open.Load(), w.Degraded())
	}
}

func (w *world) wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// take returns how many calls the primary got since the last take.
func (w *world) take() int {
	before := w.taken
	w.taken = len(w.calls.Calls())
	return w.taken - before
}

// next counts a document, by the primary or without it.
func (w *world) next(customer string, degraded bool) {
	w.t.Helper()
	if d, err := w.Next(context.Background(), customer); err != nil || d.Degraded != degraded {
		w.t.Fatalf("%q: %+v, %v, want one that is degraded: %t", customer, d, err, degraded)
	}
}

func (w *world) submit(customer string, documents ...string) {
	w.t.Helper()
	must(w.SubmitN(context.Background(), customer, named.Documents(documents...)))(w.t)
}

func (w *world) done(customer string, documents ...string) {
	w.t.Helper()
	must(w.DoneN(context.Background(), customer, documents, 0))(w.t)
}

// pending checks how many documents the primary takes for pending.
func (w *world) pending(customer string, want int64) {
	w.t.Helper()
	if state := must(w.counts.Peek(context.Background(), customer))(w.t); state.Pending != want {
		w.t.Fatalf("the primary holds %+v, want %d pending", state, want)
	}
}

func numbered(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(i)
	}
	return names
}

func TestCircuit(t *testing.T) {
	var told atomic.Int64
	test(t, fallback.Options{OnError: func(error) { told.Add(1) }}, func(t *testing.T, w *world) {
		for range 3 {
			w.changes = nil
			told.Store(0)
			w.primary.Fail(hang)
			for n := range 100 {
				start := time.Now()
				w.next("acme", true)
				took := time.Since(start)
				if n == 9 { // a probe has to find out whether the primary works for others
					w.wait(2 * timeout)
				}
				if isOpen := n >= 9; w.open.Load() != isOpen || !w.Degraded() || n < 10 && took != timeout || n >= 10 && took != 0 {
					t.Fatalf("failure %d took %v; open is %t, Degraded is %t", n+1, took, w.open.Load(), w.Degraded())
				}
			}
			if told.Load() != 10 {
				t.Errorf("OnError was told of %d failures, want 10", told.Load())
			}
			w.take()
			w.wait(time.Minute)
			if n := w.take(); n == 0 || n > 8*120 {
				t.Errorf("%d calls of probes in a minute", n)
			}
			if len(w.changes) != 1 || !strings.Contains(w.changes[0], "true priority: outcome unknown") {
				t.Fatalf("%q", w.changes)
			}
			if w.back(); len(w.changes) != 2 || w.changes[1] != "false <nil>" {
				t.Fatalf("%q", w.changes)
			}
			w.take()
			w.wait(time.Minute)
			if n := w.take(); n > 0 {
				t.Errorf("%d calls of a primary that works, and nobody calls", n)
			}
		}
	})
}

// A Redis that is full takes no documents, but Dones; a replica answers a Peek. Both are outages.
func TestCircuit_PartWorks(t *testing.T) {
	documents := []prioritytest.Operation{prioritytest.Next, prioritytest.NextN, prioritytest.NextEach, prioritytest.Submit, prioritytest.SubmitN}
	for name, fails := range map[string][]prioritytest.Operation{
		"full": documents, "a replica": append(documents, prioritytest.Done, prioritytest.DoneN, prioritytest.Reset),
	} {
		test(t, fallback.Options{}, func(t *testing.T, w *world) {
			w.primary.Fail(prioritytest.Fault{Operations: fails})
			for range 1000 {
				w.next("acme", true)
				time.Sleep(10 * time.Millisecond)
			}
			for range 1000 {
				w.submit("globex", "one")
				w.done("globex", "one")
				must(w.Peek(t.Context(), "globex"))(t)
				time.Sleep(10 * time.Millisecond)
			}
			if len(w.changes) != 1 {
				t.Errorf("%s: OnChange was told %q", name, w.changes)
			}
			w.back()
		})
	}
}

// A customer for whom the primary always fails does not keep others from it, however often that
// customer sends, also when an outage is over for the others.
func TestCircuit_OneCustomer(t *testing.T) {
	for _, rate := range []int{10, 100, 1000} { // documents of that customer for one of another
		test(t, fallback.Options{}, func(t *testing.T, w *world) {
			w.outage(down)
			w.primary.Heal()
			w.primary.Fail(prioritytest.Fault{Customer: "acme"})
			acme := func(documents int) {
				for range documents {
					w.next("acme", true)
					time.Sleep(time.Millisecond)
				}
			}
			acme(1000)
			for range 50 {
				w.next("globex", false)
				acme(rate)
			}
		})
	}
}

// A corrupt key is no outage: nothing is probed for ever.
func TestCircuit_CorruptKey(t *testing.T) {
	test(t, fallback.Options{}, func(t *testing.T, w *world) {
		w.primary.Fail(prioritytest.Fault{Class: priority.ErrCorrupt, Customer: "acme"})
		for _, id := range numbered(50) {
			w.submit("acme", id)
			w.done("acme", id)
		}
		w.wait(10 * time.Second)
		w.take()
		w.wait(time.Minute)
		if n := w.take(); n > 0 || w.open.Load() || w.Degraded() {
			t.Errorf("%d calls; open is %t, Degraded is %t", n, w.open.Load(), w.Degraded())
		}
	})
}

// OnChange may take its time, and may close the store.
func TestCircuit_OnChange(t *testing.T) {
	var f *fallback.Store
	var told chan error
	test(t, fallback.Options{OnChange: func(bool, error) {
		time.Sleep(time.Hour)
		told <- f.Close(context.Background())
	}}, func(t *testing.T, w *world) {
		f, told = w.Store, make(chan error, 1)
		w.primary.Fail(down)
		for range 10 {
			w.next("acme", true)
		}
		w.done("acme", "one")
		if err := <-told; !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("Close: %v", err)
		}
	})
}

// Callers with less time than the primary takes to fail do not open the circuit. But they make
// the store ask the primary, which decides.
func TestCircuit_ImpatientCallers(t *testing.T) {
	for _, hangs := range []bool{true, false} {
		test(t, fallback.Options{}, func(t *testing.T, w *world) {
			fault := hang
			if !hangs { // the callers are just too impatient
				fault.Operations = []prioritytest.Operation{prioritytest.Next}
			}
			w.primary.Fail(fault)
			for range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				if d, err := w.Store.Next(ctx, "acme"); err != nil || !d.Degraded {
					t.Fatalf("%+v, %v", d, err)
				}
				cancel()
				time.Sleep(100 * time.Millisecond)
			}
			if w.open.Load() != hangs || w.Degraded() != hangs {
				t.Errorf("a primary that hangs: %t; open is %t, Degraded is %t", hangs, w.open.Load(), w.Degraded())
			}
		})
	}
}

// clocked is a primary with a clock, which memory uses too, and which takes a while.
type clocked struct{ priority.Store }

func (c clocked) Unwrap() priority.Store { return c.Store }

func (clocked) Now() time.Time {
	time.Sleep(100 * time.Microsecond)
	return time.Now()
}

// A call of many items takes no longer in memory than it may. What has no answer then is an error.
func TestSubmitN_InTime(t *testing.T) {
	for patience, want := range map[time.Duration]int{time.Hour: 2500, 150 * time.Millisecond: 1500, 50 * time.Millisecond: 1000} {
		test(t, fallback.Options{}, func(t *testing.T, w *world) {
			f := must(fallback.New(clocked{w.primary}, nil))(t)
			w.primary.Fail(down)
			documents := named.Documents(numbered(10_000)...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			decisions, err := f.SubmitN(ctx, "acme", documents)
			answered := 0
			for i, err := range itemerrors.Of(err, len(documents)) {
				if decisions[i].Degraded {
					answered++
				} else if !errors.Is(err, priority.ErrNotCounted) {
					t.Fatalf("within %v, document %d: %+v, %v", patience, i, decisions[i], err)
				}
			}
			if answered < want || answered > want+1 {
				t.Errorf("within %v, %d documents have a level, want %d", patience, answered, want)
			}
			if err := f.Close(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A wrong call is one in an outage, too, and the primary hears nothing of it later.
func TestWrongCalls(t *testing.T) {
	test(t, fallback.Options{}, func(t *testing.T, w *world) {
		w.outage(down)
		for _, customer := range []string{"", "acme"} {
			for name, call := range named.Calls(t.Context(), w, customer, "") {
				hasDocument := strings.HasPrefix(name, "Submit") || strings.HasPrefix(name, "Done")
				if err := call(); (customer == "" || hasDocument) && (!errors.Is(err, priority.ErrInvalid) || errors.Is(err, priority.ErrNotCounted)) {
					t.Errorf("%s of %q: %v", name, customer, err)
				}
			}
		}
		if err := w.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}

// What the primary missed it gets in few calls, each document with its time.
func TestDones(t *testing.T) {
	test(t, fallback.Options{}, func(t *testing.T, w *world) {
		w.submit("acme", numbered(1000)...)
		w.submit("globex", "one")
		w.outage(down)
		for _, document := range numbered(500) {
			must(w.Done(t.Context(), "acme", document, time.Second))(t)
		}
		must(w.DoneN(t.Context(), "acme", numbered(1000)[500:], 500*time.Second))(t)
		w.done("globex", "one")
		w.back()
		w.pending("acme", 0)
		w.pending("globex", 0)
		if calls, took := w.counts.calls.Load(), time.Duration(w.counts.took.Load()); calls > 2 || took != 1000*time.Second {
			t.Errorf("%d calls say that the documents took %v", calls, took)
		}
	})
}

// What is too much is the Dones of who has the most.
func TestDones_Bound(t *testing.T) {
	test(t, fallback.Options{MaxDones: 500}, func(t *testing.T, w *world) {
		w.submit("acme", numbered(1000)...)
		for _, customer := range numbered(200) {
			w.submit(customer, "one")
		}
		w.outage(down)
		w.done("acme", numbered(1000)...)
		for _, customer := range numbered(200) {
			w.done(customer, "one")
		}
		w.back()
		w.pending("acme", 700)
		for _, customer := range numbered(200) {
			w.pending(customer, 0)
		}
	})
}

// Thousands of customers on a part of the primary that hangs do not keep the Dones of others back.
func TestDones_PartHangs(t *testing.T) {
	test(t, fallback.Options{}, func(t *testing.T, w *world) {
		w.submit("fine", "one")
		w.outage(down)
		w.done("fine", "one")
		for _, customer := range numbered(2000) {
			w.done(customer, "one")
		}
		w.primary.Heal()
		for _, customer := range numbered(2000) {
			w.primary.Fail(prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Delay: timeout, Customer: customer})
		}
		w.wait(10 * time.Second)
		w.pending("fine", 0)
	})
}

// A Submit that comes while the Done of the document is in flight is not ended by it. The laws
// have those that come later.
func TestDones_Submit(t *testing.T) {
	for _, counted := range []bool{false, true} {
		test(t, fallback.Options{}, func(t *testing.T, w *world) {
			w.submit("acme", "one", "two")
			fault := hang
			fault.Counted, fault.Operations = counted, []prioritytest.Operation{prioritytest.Done, prioritytest.DoneN}
			w.primary.Fail(fault)
			go func() { _, _ = w.Done(context.Background(), "acme", "one", 0) }()
			go w.done("acme", "two")
			w.wait(100 * time.Millisecond)
			w.submit("acme", "one", "two")
			w.wait(timeout)
			w.primary.Heal()
			w.wait(10 * time.Second)
			w.pending("acme", 2)
		})
	}
}

func TestClose(t *testing.T) {
	test(t, fallback.Options{}, func(t *testing.T, w *world) {
		w.submit("acme", "one", "two", "three")
		w.outage(down)
		w.done("acme", "one", "two")
		if err := w.Close(t.Context()); !errors.Is(err, priority.ErrNotCounted) || !strings.Contains(err.Error(), "2") {
			t.Errorf("Close in an outage: %v", err)
		}
		w.primary.Heal()
		w.primary.Fail(hang)
		for _, patience := range []time.Duration{-1, 0, 10 * time.Millisecond, 100 * time.Millisecond} {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			start := time.Now()
			if err := w.Close(ctx); !errors.Is(err, priority.ErrNotCounted) || time.Since(start) > max(0, patience) {
				t.Errorf("Close with %v: %v after %v", patience, err, time.Since(start))
			}
			cancel()
		}
		w.done("acme", "three") // calls still work
		w.take()
		w.wait(time.Minute)
		if n := w.take(); n > 0 {
			t.Errorf("%d calls long after Close", n)
		}
		w.primary.Heal()
		var closing sync.WaitGroup
		for range 3 {
			closing.Go(func() {
				if err := w.Close(t.Context()); err != nil {
					t.Errorf("Close, again: %v", err)
				}
			})
		}
		closing.Wait()
		w.pending("acme", 0)
		if w.next("acme", false); w.Degraded() {
			t.Error("it is degraded after Close")
		}
		w.primary.Fail(down)
		for range 20 {
			w.next("acme", true)
		}
	})
}

func TestNew(t *testing.T) {
	for i, opts := range []fallback.Options{{MaxFailures: -1}, {RetryAfter: -1}, {MaxDones: -1}, {}} {
		primary := []priority.Store{new(memory.Store), new(memory.Store), new(memory.Store), (*fallback.Store)(nil)}[i]
		if f, err := fallback.New(primary, &opts); !errors.Is(err, priority.ErrInvalid) || f != nil {
			t.Errorf("[%d]: %v, %v", i, f, err)
		}
	}
}
