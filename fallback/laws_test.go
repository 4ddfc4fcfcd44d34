package fallback_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

func TestAFallbackKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner, err := memory.New(&memory.Options{
			Policy: priority.Policy{Thresholds: []int64{-1, -4}, ResetInterval: 5 * time.Minute, Loads: []float64{3, 20}, Turns: 5},
			Tiers:  map[string]priority.Policy{"one level": {Thresholds: []int64{}, Turns: 2}},
			TierOf: func(customer string) string { return customer },
		})
		if err != nil {
			t.Fatal(err)
		}
		failing := prioritytest.NewFailingStore(inner)
		store, err := fallback.New(failing, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return prioritytest.Subject{
			Store: store, Other: inner, Faulty: []prioritytest.Faulty{failing},
			Recovery: 1250 * time.Millisecond, Close: store.Close, Customers: []string{"acme", "globex", "one level"},
		}
	})
}
