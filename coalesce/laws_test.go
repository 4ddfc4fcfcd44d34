package coalesce_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

func TestACoalescedStoreKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner := new(memory.Store)
		failing := prioritytest.NewFailingStore(inner)
		store, err := coalesce.New(failing, nil)
		if err != nil {
			t.Fatal(err)
		}
		return prioritytest.Subject{
			Store: store, Other: inner, Faulty: []prioritytest.Faulty{failing},
			Lag: 2 * time.Second, Close: store.Close,
		}
	})
}
