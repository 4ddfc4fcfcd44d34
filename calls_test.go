package priority_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/named"
)

// Calls, and what the tests expect of them.

// submit submits documents: one by Submit, others by SubmitN.
func submit(t testing.TB, store priority.Store, customer string, ids ...string) ([]priority.Decision, error) {
	if len(ids) == 1 {
		return one(store.Submit(t.Context(), customer, priority.Document{ID: ids[0]}))
	}
	return store.SubmitN(t.Context(), customer, named.Documents(ids...))
}

// numbered is n names that end with a number.
func numbered(name string, n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprint(name, " ", i)
	}
	return names
}

// must returns what a call returned, or fails the test: must(store.Next(ctx, "acme"))(t).
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return value
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantError fails the test unless an error is of one class and no other, and shows some
// text behind the package's name.
func wantError(t testing.TB, err, class error, text string) {
	t.Helper()
	if message := fmt.Sprint(err); !errors.Is(err, class) || !strings.HasPrefix(message, "priority: ") || !strings.Contains(message, text) {
		t.Errorf("error = %v, want one that wraps %q and shows %q", err, class, text)
	}
	for _, other := range []error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt} {
		if errors.Is(err, other) && other != class {
			t.Errorf("error %v wraps %q too", err, other)
		}
	}
}

// slack is more than a test takes on a real server, where time does not stand still.
const slack = 2 * time.Minute

func near(got, want time.Duration) bool { return (got - want).Abs() <= slack }

// alike reports whether numbers that halve each day are the same, but for the slack.
func alike(got, want float64) bool { return math.Abs(got-want) <= want*slack.Hours()/24 }

// decides fails the test unless a call works and decides so:
// decides(t, counted(0), counted(-1))(store.NextN(ctx, "acme", 2)).
func decides(t testing.TB, want ...priority.Decision) func([]priority.Decision, error) {
	same := func(got, want priority.Decision) bool {
		inTime := near(got.ResetIn, want.ResetIn) && alike(got.Load, want.Load)
		got.ResetIn, got.Load = want.ResetIn, want.Load
		return inTime && got == want
	}
	return func(got []priority.Decision, err error) {
		t.Helper()
		if err != nil || !slices.EqualFunc(got, want, same) {
			t.Fatalf("decided %.800s, %v; want %.800s", fmt.Sprint(got), err, fmt.Sprint(want))
		}
	}
}

// one makes a list of what a call about one document returned.
func one(decision priority.Decision, err error) ([]priority.Decision, error) {
	return []priority.Decision{decision}, err
}

// quiet is the default policy's reset interval.
const quiet = 1500 * time.Second

// counted is the default policy's decision at a count that is not above 0.
func counted(count int64) priority.Decision {
	level := priority.Policy{}.Level(count)
	return priority.Decision{Level: level, RuleLevel: level, Count: count, ResetIn: quiet}
}

// countdown is the decisions of n documents from a count down.
func countdown(from int64, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = counted(from - int64(i))
	}
	return decisions
}

// loaded is the default policy's decision at a load, without turns.
func loaded(load float64, pending int64) priority.Decision {
	level := priority.Policy{}.LevelOfLoad(load, 0)
	return priority.Decision{Level: level, RuleLevel: level, Load: load, Pending: pending}
}

// flood is the decisions about n documents of a new customer, none of which is done: by
// the rule as the package's page has it, with the default policy.
func flood(n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	var beyond int64 // the last load
	for i := range decisions {
		documents := int64(i + 1)
		decisions[i] = loaded(float64(min(documents, 512)*(documents-beyond)), documents)
		if decisions[i].Level < 6 {
			continue
		}
		beyond++
		for _, begins := range []int64{16, 256, 4096} {
			if beyond >= begins {
				decisions[i].Level++
				decisions[i].RuleLevel++
			}
		}
	}
	return decisions
}
