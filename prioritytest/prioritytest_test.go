package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// A mistake in a test is no error that it could overlook.
func TestMistakesPanic(t *testing.T) {
	for _, fault := range []prioritytest.Fault{
		{Class: context.Canceled}, {Class: priority.ErrInvalid}, {Counted: true}, {Calls: -1}, {Delay: -1}, {Slow: true},
		{Slow: true, Delay: 1, Class: priority.ErrNotCounted},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%+v: no panic", fault)
				}
			}()
			prioritytest.NewFailingStore(new(memory.Store)).Fail(fault)
		}()
	}
}

func call(ctx context.Context, s priority.Store, operation prioritytest.Operation, customer string) error {
	return named.Calls(ctx, s, customer, "old")[string(operation)]()
}

var operations = []prioritytest.Operation{
	prioritytest.Next, prioritytest.NextN, prioritytest.NextEach, prioritytest.Submit, prioritytest.SubmitN,
	prioritytest.Done, prioritytest.DoneN, prioritytest.Peek, prioritytest.Reset,
}

// What reaches the store, and what the caller gets.
func TestAFaultIsWhatTheCallComesTo(t *testing.T) {
	cause := errors.New("the cause")
	for _, operation := range operations {
		for _, fault := range []prioritytest.Fault{
			{},
			{Class: priority.ErrNotCounted},
			{Class: priority.ErrOutcomeUnknown},
			{Class: priority.ErrOutcomeUnknown, Counted: true},
			{Class: priority.ErrCorrupt},
		} {
			inner, recorder := new(memory.Store), new(prioritytest.Recorder)
			_, _ = inner.Submit(t.Context(), "acme", priority.Document{ID: "old"})
			observed, err := observe.New(inner, recorder.Observe)
			if err != nil {
				t.Fatal(err)
			}
			store := prioritytest.NewFailingStore(observed)
			class, passed := fault.Class, fault.Counted
			switch {
			case operation == prioritytest.Reset && class == priority.ErrCorrupt: // it works
				class, passed = nil, true
			case class == nil, operation == prioritytest.Peek && class == priority.ErrOutcomeUnknown: // it counts nothing
				class, passed = priority.ErrNotCounted, false
			}
			fault.Cause, fault.Calls = cause, 2
			store.Fail(fault)
			for n := 1; n <= 2; n++ {
				err := call(t.Context(), store, operation, "acme")
				if !errors.Is(err, class) || err != nil && !errors.Is(err, cause) {
					t.Errorf("%s, %+v: error %v; want %v", operation, fault, err, class)
				}
				if got, want := len(recorder.Calls()), map[bool]int{false: 0, true: n}[passed]; got != want {
					t.Errorf("%s, %+v: %d calls reached the store; want %d", operation, fault, got, want)
				}
			}
			if err := call(t.Context(), store, operation, "acme"); err != nil {
				t.Errorf("%s after the fault %+v: %v", operation, fault, err)
			}
		}
	}
}

// A call that hangs ends with its context, when the fault is healed, or when the
// delay is over; it fails all the same. One that is slow works after the delay.
func TestADelayEndsInTime(t *testing.T) {
	for _, operation := range operations {
		bubble.Test(t, func(t *testing.T) {
			store := prioritytest.NewFailingStore(new(memory.Store))
			check := func(ctx context.Context, what string, slow bool, want time.Duration, class error) {
				store.Fail(prioritytest.Fault{Delay: time.Second, Slow: slow, Calls: 1})
				start := time.Now()
				if err := call(ctx, store, operation, "acme"); time.Since(start) != want || !errors.Is(err, class) {
					t.Errorf("%s, %s, took %v: %v", operation, what, time.Since(start), err)
				}
			}
			for _, slow := range []bool{false, true} {
				impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				check(impatient, "impatient", slow, time.Millisecond, context.DeadlineExceeded)
			}
			check(t.Context(), "slow", true, time.Second, nil)
			check(t.Context(), "hanging", false, time.Second, priority.ErrNotCounted)
			time.AfterFunc(2*time.Millisecond, store.Heal)
			check(t.Context(), "healed", false, 2*time.Millisecond, priority.ErrNotCounted)
		})
	}
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
			note(call(ctx, store, operation, customer))
		}
	}
	store.Heal()
	note(call(ctx, store, prioritytest.Next, "acme"))
	want := []string{"not counted", "outcome unknown", "not counted", "outcome unknown", "<nil>", "<nil>", "<nil>", "<nil>", "<nil>"}
	if !slices.Equal(got, want) {
		t.Errorf("the calls came to\n%q, want\n%q", got, want)
	}
}

// Calls that would send nothing are answered by the store and use up no fault.
func TestCallsThatMeetNoFault(t *testing.T) {
	store := prioritytest.NewFailingStore(new(memory.Store))
	store.Fail(prioritytest.Fault{Calls: 1, Class: priority.ErrOutcomeUnknown})
	ctx := t.Context()
	ended, end := context.WithCancel(ctx)
	end()
	for _, operation := range operations {
		if err := call(ctx, store, operation, ""); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s of a wrong customer: %v", operation, err)
		}
		if err := call(ended, store, operation, "acme"); !errors.Is(err, priority.ErrNotCounted) {
			t.Errorf("%s whose context has ended: %v", operation, err)
		}
	}
	if decisions, err := store.NextN(ctx, "acme", 0); len(decisions) != 0 || err != nil {
		t.Errorf("of nothing: %v, %v", decisions, err)
	}
	if _, err := store.Next(ctx, "acme"); !errors.Is(err, priority.ErrOutcomeUnknown) {
		t.Errorf("the fault was used up: %v", err)
	}
}

// In a NextEach each entry has its own error, and the others have their decisions and do
// not wait for those that hang.
func TestNextEach_OneFails(t *testing.T) {
	for _, counted := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			inner := new(memory.Store)
			store := prioritytest.NewFailingStore(inner)
			store.Fail(prioritytest.Fault{Customer: "a", Class: priority.ErrOutcomeUnknown, Counted: counted, Delay: time.Minute})
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			decisions, err := store.NextEach(ctx, []string{"a", "b", "a", "b"})
			for i, err := range itemerrors.Of(err, 4) {
				if errors.Is(err, priority.ErrOutcomeUnknown) != (i%2 == 0) || (decisions[i] == priority.Decision{}) != (i%2 == 0) {
					t.Errorf("entry %d: %+v, %v", i, decisions[i], err)
				}
			}
			if a, _ := inner.Peek(t.Context(), "a"); (a.ResetIn > 0) != counted {
				t.Errorf("counted is %t, and the store holds %+v", counted, a)
			}
		})
	}
}
