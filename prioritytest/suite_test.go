package prioritytest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

// tiered are options with policies that differ in everything.
var tiered = memory.Options{
	Policy: priority.Policy{ResetInterval: 20 * time.Minute, Turns: 4},
	Tiers: map[string]priority.Policy{
		"short":  {Thresholds: []int64{-1, -3, -9}, ResetInterval: time.Minute, Loads: []float64{1, 8.5}, Turns: 3},
		"steady": {ResetMode: priority.SinceLastReset, ResetInterval: 10 * time.Minute},
	},
	TierOf: func(customer string) string { tier, _, _ := strings.Cut(customer, " "); return tier },
	Lease:  3 * time.Minute,
}

var tieredCustomers = []string{"acme", "short {b}%", "steady \x00"}

func entriesOf(store *memory.Store) func() int {
	return func() int {
		customers, pending := store.Len()
		return customers + pending
	}
}

func TestAStoreInMemoryKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		store := new(memory.Store)
		return prioritytest.Subject{Store: store, Entries: entriesOf(store)}
	})
}

func TestAStoreInMemoryWithTiersKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		store, err := memory.New(&tiered)
		if err != nil {
			t.Fatal(err)
		}
		return prioritytest.Subject{Store: store, Entries: entriesOf(store), Customers: tieredCustomers}
	})
}

func TestAStoreOnAClockKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		clock := new(prioritytest.Clock)
		return prioritytest.Subject{
			Store: prioritytest.NewStore(clock, &memory.Options{Policy: priority.Policy{ResetMode: priority.SinceLastReset}}),
			Wait:  clock.Advance,
		}
	})
}

// Outside of a bubble, with a clock of its own.
func TestAStoreInRealTimeKeepsTheLaws(t *testing.T) {
	prioritytest.TestStoreInRealTime(t, func(t *testing.T) prioritytest.Subject {
		clock := new(prioritytest.Clock)
		return prioritytest.Subject{Store: prioritytest.NewStore(clock, &tiered), Wait: clock.Advance, Customers: tieredCustomers}
	})
}

func TestAFailingStoreKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner, err := memory.New(&tiered)
		failing := prioritytest.NewFailingStore(inner)
		if err != nil || failing.Unwrap() != inner {
			t.Fatal(failing.Unwrap(), err)
		}
		return prioritytest.Subject{Store: failing, Other: inner, Faulty: []prioritytest.Faulty{failing}, Customers: tieredCustomers}
	})
}
