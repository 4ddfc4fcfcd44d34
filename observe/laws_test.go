package observe_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

func TestAnObservedStoreKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner, err := memory.New(&memory.Options{Policy: priority.Policy{Thresholds: []int64{-1, -4}, Loads: []float64{}, Turns: 3}, Lease: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		failing := prioritytest.NewFailingStore(inner)
		store := observe.New(failing, new(prioritytest.Recorder).Observe)
		if store.Unwrap() != failing {
			t.Errorf("Unwrap = %v", store.Unwrap())
		}
		return prioritytest.Subject{Store: store, Other: inner, Faulty: []prioritytest.Faulty{failing}}
	})
}
