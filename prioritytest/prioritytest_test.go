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
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
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
	store, clock := prioritytest.NewFailingStore(new(memory.Store)), new(prioritytest.Clock)
	for name, mistake := range map[string]func(){
		"options": func() {
			prioritytest.NewStore(clock, &memory.Options{Policy: priority.Policy{ResetInterval: -1}})
		},
		"no store": func() { prioritytest.NewFailingStore(nil) },
		"back":     func() { clock.Advance(-1) },
		"class":    func() { store.Fail(prioritytest.Fault{Class: context.Canceled}) },
		"invalid":  func() { store.Fail(prioritytest.Fault{Class: priority.ErrInvalid}) },
		"counted":  func() { store.Fail(prioritytest.Fault{Counted: true}) },
		"calls":    func() { store.Fail(prioritytest.Fault{Calls: -1}) },
		"delay":    func() { store.Fail(prioritytest.Fault{Delay: -1}) },
		"not slow": func() { store.Fail(prioritytest.Fault{Slow: true}) },
		"slow and failing": func() {
			store.Fail(prioritytest.Fault{Slow: true, Delay: 1, Class: priority.ErrNotCounted})
		},
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

// calls are all calls of a store about one customer. Each counts one document at most.
var calls = map[prioritytest.Operation]func(context.Context, *prioritytest.FailingStore, string) error{
	prioritytest.Next: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.Next(ctx, customer)
		return err
	},
	prioritytest.NextN: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.NextN(ctx, customer, 1)
		return err
	},
	prioritytest.NextEach: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.NextEach(ctx, []string{customer})
		return err
	},
	prioritytest.Submit: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.Submit(ctx, customer, "new")
		return err
	},
	prioritytest.SubmitN: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.SubmitN(ctx, customer, []string{"new"})
		return err
	},
	prioritytest.Done: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		return s.Done(ctx, customer, "old", time.Second)
	},
	prioritytest.DoneN: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		return s.DoneN(ctx, customer, []string{"old"}, time.Second)
	},
	prioritytest.Peek: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		_, err := s.Peek(ctx, customer)
		return err
	},
	prioritytest.Reset: func(ctx context.Context, s *prioritytest.FailingStore, customer string) error {
		return s.Reset(ctx, customer)
	},
}

// batches are those whose error is a *priority.BatchError.
var batches = []prioritytest.Operation{prioritytest.NextEach, prioritytest.SubmitN, prioritytest.DoneN}

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

func TestAFaultIsWhatTheCallComesTo(t *testing.T) {
	cause := errors.New("the cause")
	for operation, call := range calls {
		for _, kind := range kinds {
			t.Run(fmt.Sprint(operation, " ", kind.name), func(t *testing.T) {
				inner, recorder := new(memory.Store), new(prioritytest.Recorder)
				_, _ = inner.Submit(t.Context(), "acme", "old")
				store := prioritytest.NewFailingStore(observe.New(inner, recorder.Observe))
				fault := kind.fault
				fault.Cause, fault.Calls = cause, 2
				store.Fail(fault)

				class, passed := expect(operation, kind.class, kind.passed)
				for n := 1; n <= 2; n++ {
					check(t, call(t.Context(), store, "acme"), class, cause, slices.Contains(batches, operation))
					if got, want := len(recorder.Calls()), map[bool]int{false: 0, true: n}[passed]; got != want {
						t.Errorf("call %d: %d calls reached the store; want %d", n, got, want)
					}
				}
				if err := call(t.Context(), store, "acme"); err != nil {
					t.Errorf("after the fault: %v", err)
				}
			})
		}
	}
}

// A call that hangs ends with its context, when the fault is healed, or when the
// delay is over; it fails all the same.
func TestADelayEndsInTime(t *testing.T) {
	for operation, call := range calls {
		t.Run(string(operation), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				store := prioritytest.NewFailingStore(new(memory.Store))
				fail := func(ctx context.Context) (time.Duration, error) {
					store.Fail(prioritytest.Fault{Delay: time.Second, Calls: 1})
					start := time.Now()
					err := call(ctx, store, "acme")
					return time.Since(start), err
				}
				took, err := fail(t.Context())
				if took != time.Second || !errors.Is(err, priority.ErrNotCounted) {
					t.Errorf("it took %v: %v", took, err)
				}
				impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				took, err = fail(impatient)
				if took != time.Millisecond || !errors.Is(err, priority.ErrNotCounted) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("with an impatient caller it took %v: %v", took, err)
				}
				time.AfterFunc(2*time.Millisecond, store.Heal)
				took, err = fail(t.Context())
				if took != 2*time.Millisecond || !errors.Is(err, priority.ErrNotCounted) {
					t.Errorf("until it was healed it took %v: %v", took, err)
				}
			})
		})
	}
}

// A slow call is passed on after a while, unless its caller gives up before.
func TestASlowCallIsPassedOn(t *testing.T) {
	for operation, call := range calls {
		t.Run(string(operation), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				inner, recorder := new(memory.Store), new(prioritytest.Recorder)
				_, _ = inner.Next(t.Context(), "acme")
				store := prioritytest.NewFailingStore(observe.New(inner, recorder.Observe))
				store.Fail(prioritytest.Fault{Slow: true, Delay: time.Second})
				impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				if err := call(impatient, store, "acme"); !errors.Is(err, priority.ErrNotCounted) || len(recorder.Calls()) != 0 {
					t.Errorf("with an impatient caller: %v, %d calls", err, len(recorder.Calls()))
				}
				start := time.Now()
				if err := call(t.Context(), store, "acme"); err != nil || time.Since(start) != time.Second || len(recorder.Calls()) != 1 {
					t.Errorf("%v after %v, %d calls", err, time.Since(start), len(recorder.Calls()))
				}
			})
		})
	}
}

// The other entries of a batch do not wait for those that hang.
func TestADelayedCustomerDelaysNoOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		inner := new(memory.Store)
		store := prioritytest.NewFailingStore(inner)
		store.Fail(prioritytest.Fault{Customer: "a", Delay: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		decisions, err := store.NextEach(ctx, []string{"a", "b", "a", "b"})
		errs := priority.ItemErrors(err, 4)
		if errs[1] != nil || errs[3] != nil || decisions[3].Count != -1 || !errors.Is(errs[0], context.DeadlineExceeded) {
			t.Errorf("%+v, %v", decisions, errs)
		}
	})
}

// Only the calls that a fault names meet it, the first fault first.
func TestFaultsThatCallsMeet(t *testing.T) {
	ctx := t.Context()
	store := prioritytest.NewFailingStore(new(memory.Store))
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
	store := prioritytest.NewFailingStore(new(memory.Store))
	store.Fail(prioritytest.Fault{Calls: 1, Class: priority.ErrOutcomeUnknown})
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
	if decisions, err := store.SubmitN(t.Context(), "acme", nil); len(decisions) > 0 || err != nil {
		t.Errorf("SubmitN of none: %v, %v", decisions, err)
	}
	for _, document := range []string{"", long} {
		if _, err := store.SubmitN(t.Context(), "acme", []string{"a", document}); !errors.Is(err, priority.ErrInvalidDocument) {
			t.Errorf("SubmitN of %q: %v", document, err)
		}
	}
	if err := store.Done(t.Context(), "acme", "a", -1); !errors.Is(err, priority.ErrInvalidOption) {
		t.Errorf("Done that took -1: %v", err)
	}
	if _, err := store.Next(t.Context(), "acme"); !errors.Is(err, priority.ErrOutcomeUnknown) {
		t.Errorf("the fault was used up: %v", err)
	}
}

// Faults on top of faults: each entry has the error of its own, and the others
// their decisions.
func TestNextEachOfManyFaults(t *testing.T) {
	for _, counted := range []bool{false, true} {
		inner := new(memory.Store)
		below := prioritytest.NewFailingStore(inner)
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
		if a, _ := inner.Peek(t.Context(), "a"); (a.ResetIn > 0) != counted {
			t.Errorf("counted is %t, and the store holds %+v", counted, a)
		}
	}
}

func TestARecorderKeepsCalls(t *testing.T) {
	ctx := t.Context()
	failing, recorder := prioritytest.NewFailingStore(new(memory.Store)), new(prioritytest.Recorder)
	store := observe.New(failing, recorder.Observe)
	failing.Fail(prioritytest.Fault{Customer: "b"})

	three, _ := store.NextN(ctx, "a", 3)
	customers := []string{"a", "b"}
	each, batch := store.NextEach(ctx, customers)
	customers[0] = "changed afterwards"
	_ = store.Done(ctx, "a", "d", time.Minute)

	got := recorder.Calls()
	for i := range got {
		got[i].Start, got[i].Duration = time.Time{}, 0
	}
	want := []observe.Call{
		{Operation: "NextN", Customers: []string{"a"}, Items: 3, Decisions: three},
		{Operation: "NextEach", Customers: []string{"a", "b"}, Items: 2, Decisions: each, Err: batch},
		{Operation: "Done", Customers: []string{"a"}, Items: 1, Took: time.Minute},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("it kept\n%+v, want\n%+v", got, want)
	}
}

// Many callers are counted once each and kept once each.
func TestConcurrentUse(t *testing.T) {
	failing, recorder := prioritytest.NewFailingStore(new(memory.Store)), new(prioritytest.Recorder)
	store := observe.New(failing, recorder.Observe)
	failing.Fail(prioritytest.Fault{Calls: 300})
	var calling sync.WaitGroup
	for range 8 {
		calling.Go(func() {
			for range 100 {
				_, _ = store.Next(context.Background(), "acme")
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

// A FailingStore has the policies of the store, and Unwrap.
func TestAFailingStorePassesOnWhatTheStoreHas(t *testing.T) {
	inner := prioritytest.NewStore(new(prioritytest.Clock), &tiered)
	store := prioritytest.NewFailingStore(inner)
	for _, customer := range tieredCustomers {
		if got, want := store.PolicyOf(customer), inner.PolicyOf(customer); !reflect.DeepEqual(got, want) {
			t.Errorf("PolicyOf(%q) = %+v, want %+v", customer, got, want)
		}
	}
	if store.Last() != 9 || store.Unwrap() != inner {
		t.Errorf("the last level is %d, and Unwrap is %v", store.Last(), store.Unwrap())
	}
}
