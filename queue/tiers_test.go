package queue_test

import (
	"slices"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
)

// openTiers makes a store whose customer "small" has a tier of three levels, beside
// nine for all others.
func openTiers(t *testing.T) *memory.Store {
	t.Helper()
	store, err := memory.New(&memory.Options{
		Tiers:  map[string]priority.Policy{"small": {Thresholds: []int64{-1, -2}}},
		TierOf: func(customer string) string { return customer },
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// Levels of all customers stand in one queue. With the tier's own last level the
// adapters would put its level 3 behind everybody's level 8.
func TestATierOfThreeLevelsStaysAheadOfEverybodysLevelFour(t *testing.T) {
	store := openTiers(t)
	if _, err := store.NextN(t.Context(), "small", 100); err != nil {
		t.Fatal(err)
	}
	small, err := store.Peek(t.Context(), "small")
	if err != nil {
		t.Fatal(err)
	}
	last := store.Last()
	if small.Level != 3 || last != 9 {
		t.Fatalf("the tier is at level %d, and the last level of all is %d", small.Level, last)
	}
	for name, adapter := range adapters {
		tiers, fourth := adapter.number(small.Level, last), adapter.number(4, last)
		behind := (fourth - tiers) * int(adapter.order)
		// Where the queue tells all levels apart it is ahead, elsewhere not behind.
		if behind < 0 || behind == 0 && len(adapter.all(last)) >= int(last) {
			t.Errorf("%s: level 4 of others is %d, not behind the tier's level 3, which is %d", name, fourth, tiers)
		}
	}
	for name, all := range map[string][]string{
		queue.Name("documents", small.Level, last):        queue.Names("documents", last),
		queue.NATSSubject("documents", small.Level, last): queue.NATSSubjects("documents", last),
	} {
		if at := slices.Index(all, name); at != 2 {
			t.Errorf("%s is at %d of %q, and not before level 4's", name, at, all)
		}
	}
	weights := queue.AsynqQueues("documents", last)
	if weights[queue.Name("documents", small.Level, last)] <= weights[queue.Name("documents", 4, last)] {
		t.Errorf("AsynqQueues: the tier's level 3 is not served more often than level 4: %v", weights)
	}
}

func TestEveryLevelThatACustomerGetsIsPolled(t *testing.T) {
	store := openTiers(t)
	last := store.Last()
	names, subjects := queue.Names("documents", last), queue.NATSSubjects("documents", last)
	weights := queue.AsynqQueues("documents", last)
	picker, err := queue.NewPicker(slices.Repeat([]int64{1}, int(last))...)
	if err != nil {
		t.Fatal(err)
	}
	for _, customer := range []string{"small", "other"} {
		decisions, err := store.NextN(t.Context(), customer, 30)
		if err != nil {
			t.Fatal(err)
		}
		for _, decision := range decisions {
			name := queue.Name("documents", decision.Level, last)
			if !slices.Contains(names, name) {
				t.Errorf("Names has no %s: %q", name, names)
			}
			if subject := queue.NATSSubject("documents", decision.Level, last); !slices.Contains(subjects, subject) {
				t.Errorf("NATSSubjects has no %s: %q", subject, subjects)
			}
			if weights[name] < 1 {
				t.Errorf("AsynqQueues has no %s: %v", name, weights)
			}
			hasWork := make([]bool, len(names))
			hasWork[decision.Level-1] = true
			if picked, ok := picker.Pick(hasWork); !ok || picked != decision.Level {
				t.Errorf("with work at level %d alone the Picker picked %d, %t", decision.Level, picked, ok)
			}
		}
	}
}
