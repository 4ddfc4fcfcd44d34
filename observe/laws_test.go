package observe_test

import (
	"testing"

	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

func TestAnObservedStoreKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner := new(memory.Store)
		failing := prioritytest.NewFailingStore(inner)
		return prioritytest.Subject{
			Store: observe.New(failing, new(prioritytest.Recorder).Observe), Other: inner,
			Faulty: []prioritytest.Faulty{failing},
		}
	})
}
