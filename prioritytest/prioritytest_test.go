package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

func TestClock(t *testing.T) {
	clock := new(prioritytest.Clock)
	if got := clock.Now().Format(time.RFC3339Nano); got != "2000-01-01T00:00:00Z" {
		t.Errorf("it begins at %s", got)
	}
	noon := time.Date(2025, 3, 1, 12, 0, 0, 0, time.UTC)
	clock.Set(noon)
	clock.Advance(time.Second)
	if got := clock.Now(); !got.Equal(noon.Add(time.Second)) {
		t.Errorf("a second after noon it is %v", got)
	}
	var advancing sync.WaitGroup
	for range 8 {
		advancing.Go(func() {
			for range 1000 {
				clock.Advance(time.Millisecond)
				clock.Now()
			}
		})
	}
	advancing.Wait()
	if got := clock.Now(); !got.Equal(noon.Add(9 * time.Second)) {
		t.Errorf("8000 milliseconds later it is %v", got)
	}
}

// A mistake in a test is no error that it could overlook.
func TestMistakesPanic(t *testing.T) {
	store, clock := prioritytest.NewFailingStore(nil), new(prioritytest.Clock)
	wrong := &priority.MemoryOptions{Policy: priority.Policy{ResetInterval: -1}}
	for name, mistake := range map[string]func(){
		"store":          func() { prioritytest.NewStore(clock, wrong) },
		"tracker":        func() { prioritytest.NewTracker(clock, wrong) },
		"back":           func() { clock.Advance(-1) },
		"class":          func() { store.Fail(prioritytest.Fault{Class: context.Canceled}) },
		"invalid":        func() { store.Fail(prioritytest.Fault{Class: priority.ErrInvalid}) },
		"counted":        func() { store.Fail(prioritytest.Fault{Counted: true}) },
		"calls":          func() { store.Fail(prioritytest.Fault{Calls: -1}) },
		"tracker's call": func() { prioritytest.NewFailingTracker(nil).Fail(prioritytest.Fault{Calls: -1}) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			mistake()
		}()
	}
}

// calls are all calls of a store; each counts one document at most.
var calls = map[prioritytest.Operation]func(context.Context, priority.Store, string) error{
	prioritytest.Next: func(ctx context.Context, s priority.Store, customer string) error {
		_, err := s.Next(ctx, customer)
		return err
	},
	prioritytest.NextN: func(ctx context.Context, s priority.Store, customer string) error {
		_, err := s.NextN(ctx, customer, 1)
		return err
	},
	prioritytest.NextEach: func(ctx context.Context, s priority.Store, customer string) error {
		_, err := s.NextEach(ctx, []string{customer})
		return err
	},
	prioritytest.Peek: func(ctx context.Context, s priority.Store, customer string) error {
		_, err := s.Peek(ctx, customer)
		return err
	},
	prioritytest.Reset: func(ctx context.Context, s priority.Store, customer string) error {
		return s.Reset(ctx, customer)
	},
}

// trackerCalls are all calls of a tracker.
var trackerCalls = map[prioritytest.Operation]func(context.Context, priority.Tracker, string) error{
	prioritytest.Submit: func(ctx context.Context, t priority.Tracker, customer string) error {
		_, err := t.Submit(ctx, customer, "new")
		return err
	},
	prioritytest.SubmitN: func(ctx context.Context, t priority.Tracker, customer string) error {
		_, err := t.SubmitN(ctx, customer, []string{"new"})
		return err
	},
	prioritytest.Done: func(ctx context.Context, t priority.Tracker, customer string) error {
		return t.Done(ctx, customer, "old")
	},
	prioritytest.DoneN: func(ctx context.Context, t priority.Tracker, customer string) error {
		return t.DoneN(ctx, customer, []string{"old"})
	},
	prioritytest.Peek: func(ctx context.Context, t priority.Tracker, customer string) error {
		_, err := t.Peek(ctx, customer)
		return err
	},
	prioritytest.Reset: func(ctx context.Context, t priority.Tracker, customer string) error {
		return t.Reset(ctx, customer)
	},
}

// kinds are the kinds of faults, and what a call that meets one comes to.
var kinds = []struct {
	name   string
	fault  prioritytest.Fault
	class  error
	passed bool
}{
	{"zero", prioritytest.Fault{}, priority.ErrNotCounted, false},
	{"not counted", prioritytest.Fault{Class: priority.ErrNotCounted}, priority.ErrNotCounted, false},
	{"unknown, lost", prioritytest.Fault{Class: priority.ErrOutcomeUnknown}, priority.ErrOutcomeUnknown, false},
	{"unknown, counted", prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Counted: true}, priority.ErrOutcomeUnknown, true},
	{"corrupt", prioritytest.Fault{Class: priority.ErrCorruptCount}, priority.ErrCorruptCount, false},
}

// expect returns the class and whether the call is passed on: a Peek is never of
// unknown outcome, and a Reset works where a count is corrupt.
func expect(operation prioritytest.Operation, class error, passed bool) (error, bool) {
	switch {
	case operation == prioritytest.Peek && class == priority.ErrOutcomeUnknown:
		return priority.ErrNotCounted, false
	case operation == prioritytest.Reset && class == priority.ErrCorruptCount:
		return nil, true
	}
	return class, passed
}

func check(t *testing.T, err, class, cause error, batch bool) {
	t.Helper()
	if class == nil {
		if err != nil {
			t.Errorf("error %v", err)
		}
		return
	}
	for _, other := range []error{priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount, priority.ErrInvalid} {
		if errors.Is(err, other) != (other == class) {
			t.Errorf("error %v; want only %v", err, class)
		}
	}
	if !errors.Is(err, cause) {
		t.Errorf("error %v; want one that wraps %v", err, cause)
	}
	if errors.As(err, new(*priority.BatchError)) != batch {
		t.Errorf("error %T; want a batch's: %t", err, batch)
	}
}

func TestFailingStore(t *testing.T) {
	cause := errors.New("the cause")
	for operation, call := range calls {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(operation, " ", kind.name), func(t *testing.T) {
				memory := new(priority.MemoryStore)
				_, _ = memory.NextN(t.Context(), "acme", 5)
				recorder := prioritytest.NewRecorder(memory)
				store := prioritytest.NewFailingStore(recorder)
				fault := kind.fault
				fault.Cause, fault.Calls = cause, 2
				store.Fail(fault)

				class, passed := expect(operation, kind.class, kind.passed)
				for n := 1; n <= 2; n++ {
					check(t, call(t.Context(), store, "acme"), class, cause, operation == prioritytest.NextEach)
					// A NextEach may be passed on empty, which counts nothing.
					reached := slices.DeleteFunc(recorder.Calls(), func(c prioritytest.Call) bool { return len(c.Customers) == 0 })
					if want := map[bool]int{false: 0, true: n}[passed]; len(reached) != want {
						t.Errorf("call %d: %d calls reached the store; want %d", n, len(reached), want)
					}
				}
				if err := call(t.Context(), store, "acme"); err != nil {
					t.Errorf("after the fault: %v", err)
				}
			})
		}
	}
}

func TestFailingTracker(t *testing.T) {
	cause := errors.New("the cause")
	for operation, call := range trackerCalls {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(operation, " ", kind.name), func(t *testing.T) {
				memory, plain := new(priority.MemoryTracker), new(priority.MemoryTracker)
				_, _ = memory.Submit(t.Context(), "acme", "old")
				_, _ = plain.Submit(t.Context(), "acme", "old")
				tracker := prioritytest.NewFailingTracker(memory)
				fault := kind.fault
				fault.Cause, fault.Calls = cause, 1
				tracker.Fail(fault)

				class, passed := expect(operation, kind.class, kind.passed)
				many := operation == prioritytest.SubmitN || operation == prioritytest.DoneN
				check(t, call(t.Context(), tracker, "acme"), class, cause, many)
				if passed {
					_ = call(t.Context(), plain, "acme")
				}
				got, _ := memory.Peek(t.Context(), "acme")
				want, _ := plain.Peek(t.Context(), "acme")
				got.ResetIn, want.ResetIn = 0, 0
				if got != want {
					t.Errorf("the tracker is at %+v; want %+v", got, want)
				}
				tracker.Heal()
				if err := call(t.Context(), tracker, "acme"); err != nil {
					t.Errorf("after the fault: %v", err)
				}
			})
		}
	}
}

// Only the calls that a fault names meet it, the first fault first.
func TestFaultsThatCallsMeet(t *testing.T) {
	ctx := t.Context()
	store := prioritytest.NewFailingStore(new(priority.MemoryStore))
	store.Fail(prioritytest.Fault{Customer: "acme", Operations: []prioritytest.Operation{prioritytest.Next, prioritytest.Peek}, Calls: 2})
	store.Fail(prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Customer: "acme"})
	var got []string
	note := func(err error) {
		class, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprint(err), "priority: "), ":")
		got = append(got, class)
	}
	for _, customer := range []string{"acme", "other"} {
		for _, operation := range []prioritytest.Operation{prioritytest.Next, prioritytest.NextN, prioritytest.Peek, prioritytest.Next} {
			note(calls[operation](ctx, store, customer))
		}
	}
	store.Heal()
	note(calls[prioritytest.Next](ctx, store, "acme"))
	want := []string{"not counted", "outcome unknown", "not counted", "outcome unknown", "<nil>", "<nil>", "<nil>", "<nil>", "<nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("the calls came to\n%q, want\n%q", got, want)
	}
}

// Calls that would send nothing are answered by the store and use up no fault.
func TestCallsThatMeetNoFault(t *testing.T) {
	store, tracker := prioritytest.NewFailingStore(new(priority.MemoryStore)), prioritytest.NewFailingTracker(new(priority.MemoryTracker))
	store.Fail(prioritytest.Fault{Calls: 1, Class: priority.ErrOutcomeUnknown})
	tracker.Fail(prioritytest.Fault{Calls: 1, Class: priority.ErrOutcomeUnknown})
	ended, end := context.WithCancel(t.Context())
	end()
	long := strings.Repeat("x", 513)
	for operation, call := range calls {
		for _, customer := range []string{"", long} {
			if err := call(t.Context(), store, customer); !errors.Is(err, priority.ErrInvalidCustomer) {
				t.Errorf("%s of a wrong customer: %v", operation, err)
			}
		}
		if err := call(ended, store, "acme"); !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("%s whose context has ended: %v", operation, err)
		}
	}
	for operation, call := range trackerCalls {
		if err := call(t.Context(), tracker, ""); !errors.Is(err, priority.ErrInvalidCustomer) {
			t.Errorf("%s of a wrong customer: %v", operation, err)
		}
		if err := call(ended, tracker, "acme"); !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("%s whose context has ended: %v", operation, err)
		}
	}
	for _, n := range []int{-1, priority.MaxDocuments + 1} {
		if _, err := store.NextN(t.Context(), "acme", n); !errors.Is(err, priority.ErrInvalidCount) {
			t.Errorf("NextN of %d: %v", n, err)
		}
	}
	if decisions, err := store.NextN(t.Context(), "acme", 0); len(decisions) > 0 || err != nil {
		t.Errorf("NextN of 0: %v, %v", decisions, err)
	}
	if decisions, err := store.NextEach(t.Context(), nil); len(decisions) > 0 || err != nil {
		t.Errorf("NextEach of none: %v, %v", decisions, err)
	}
	for _, document := range []string{"", long} {
		if _, err := tracker.SubmitN(t.Context(), "acme", []string{"a", document}); !errors.Is(err, priority.ErrInvalidDocument) {
			t.Errorf("SubmitN of %q: %v", document, err)
		}
	}
	if decisions, err := tracker.SubmitN(t.Context(), "acme", nil); len(decisions) > 0 || err != nil {
		t.Errorf("SubmitN of none: %v, %v", decisions, err)
	}
	if _, err := store.Next(t.Context(), "acme"); !errors.Is(err, priority.ErrOutcomeUnknown) {
		t.Errorf("the store's fault was used up: %v", err)
	}
	if _, err := tracker.Submit(t.Context(), "acme", "a"); !errors.Is(err, priority.ErrOutcomeUnknown) {
		t.Errorf("the tracker's fault was used up: %v", err)
	}
}

// Faults on top of faults: each entry has the error of its own, and the others
// their decisions.
func TestNextEachOfManyFaults(t *testing.T) {
	for _, counted := range []bool{false, true} {
		memory := new(priority.MemoryStore)
		below := prioritytest.NewFailingStore(memory)
		above := prioritytest.NewFailingStore(below)
		below.Fail(prioritytest.Fault{Customer: "b"})
		above.Fail(prioritytest.Fault{Customer: "a", Class: priority.ErrOutcomeUnknown, Counted: counted})
		decisions, err := above.NextEach(t.Context(), []string{"a", "b", "c", "a", "b", "c"})
		var batch *priority.BatchError
		if !errors.As(err, &batch) || len(batch.Errs) != 6 || len(decisions) != 6 {
			t.Fatalf("%v, %v", decisions, err)
		}
		for i, class := range []error{priority.ErrOutcomeUnknown, priority.ErrNotCounted, nil, priority.ErrOutcomeUnknown, priority.ErrNotCounted, nil} {
			if !errors.Is(batch.Errs[i], class) {
				t.Errorf("entry %d: %v; want %v", i, batch.Errs[i], class)
			}
		}
		if decisions[2].Count != 0 || decisions[5].Count != -1 || decisions[0] != (priority.Decision{}) || decisions[1] != (priority.Decision{}) {
			t.Errorf("decisions %+v", decisions)
		}
		if a, _ := memory.Peek(t.Context(), "a"); (a.ResetIn > 0) != counted {
			t.Errorf("counted is %t, and the store holds %+v", counted, a)
		}
	}
}

func TestRecorder(t *testing.T) {
	ctx := t.Context()
	memory := new(priority.MemoryStore)
	failing := prioritytest.NewFailingStore(memory)
	recorder := prioritytest.NewRecorder(failing)
	failing.Fail(prioritytest.Fault{Customer: "b"})

	first, _ := recorder.Next(ctx, "a")
	three, _ := recorder.NextN(ctx, "a", 3)
	customers := []string{"a", "b"}
	each, batch := recorder.NextEach(ctx, customers)
	customers[0] = "changed afterwards"
	peeked, _ := recorder.Peek(ctx, "a")
	_ = recorder.Reset(ctx, "a")
	_, failed := recorder.Next(ctx, "b")

	want := []prioritytest.Call{
		{Operation: prioritytest.Next, Customers: []string{"a"}, N: 1, Decisions: []priority.Decision{first}},
		{Operation: prioritytest.NextN, Customers: []string{"a"}, N: 3, Decisions: three},
		{Operation: prioritytest.NextEach, Customers: []string{"a", "b"}, N: 2, Decisions: each, Err: batch},
		{Operation: prioritytest.Peek, Customers: []string{"a"}, Decisions: []priority.Decision{peeked}},
		{Operation: prioritytest.Reset, Customers: []string{"a"}},
		{Operation: prioritytest.Next, Customers: []string{"b"}, N: 1, Err: failed},
	}
	if got := recorder.Calls(); !reflect.DeepEqual(got, want) {
		t.Errorf("it kept\n%+v, want\n%+v", got, want)
	}
	if first.Level != 1 || peeked.Count != -4 || failed == nil || batch == nil {
		t.Errorf("it changed the answers: %+v, %+v, %v, %v", first, peeked, failed, batch)
	}
}

// Many callers are counted once each and kept once each.
func TestConcurrentUse(t *testing.T) {
	memory := new(priority.MemoryStore)
	failing := prioritytest.NewFailingStore(memory)
	recorder := prioritytest.NewRecorder(failing)
	failing.Fail(prioritytest.Fault{Calls: 300})
	var calling sync.WaitGroup
	for range 8 {
		calling.Go(func() {
			for range 100 {
				_, _ = recorder.Next(context.Background(), "acme")
				recorder.Calls()
			}
		})
	}
	calling.Wait()
	failed, counts := 0, make(map[int64]bool)
	for _, call := range recorder.Calls() {
		if call.Err != nil {
			failed++
			continue
		}
		counts[call.Decisions[0].Count] = true
	}
	if failed != 300 || len(counts) != 500 {
		t.Errorf("%d calls failed and %d counts were given; want 300 and 500", failed, len(counts))
	}
}

// The stores around a store tell its policies, as a Coalescer needs.
func TestPolicyOf(t *testing.T) {
	policy := priority.Policy{Thresholds: []int64{-7}, ResetMode: priority.SinceLastReset}
	clock := new(prioritytest.Clock)
	store := prioritytest.NewStore(clock, &priority.MemoryOptions{Policy: policy})
	tracker := prioritytest.NewTracker(clock, &priority.MemoryOptions{Policy: policy})
	type policied interface {
		PolicyOf(customer string) priority.Policy
	}
	for _, s := range []policied{
		prioritytest.NewFailingStore(store), prioritytest.NewRecorder(store), prioritytest.NewFailingTracker(tracker),
		prioritytest.NewRecorder(prioritytest.NewFailingStore(store)),
	} {
		if got := s.PolicyOf("acme"); !reflect.DeepEqual(got, store.PolicyOf("acme")) || got.Lowest() != 2 {
			t.Errorf("%T: %+v", s, got)
		}
	}
	silent := struct{ priority.Store }{store}
	if got := prioritytest.NewRecorder(silent).PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) {
		t.Errorf("around a store that does not tell: %+v", got)
	}
}
