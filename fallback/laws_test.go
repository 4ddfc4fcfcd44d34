package fallback_test

import (
	"testing"
	"time"

	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

func TestAFallbackKeepsTheLaws(t *testing.T) {
	prioritytest.TestStore(t, func(t *testing.T) prioritytest.Subject {
		inner := new(memory.Store)
		failing := prioritytest.NewFailingStore(inner)
		store, err := fallback.New(failing, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return prioritytest.Subject{
			Store: store, Other: inner, Faulty: []prioritytest.Faulty{failing},
			Recovery: 1250 * time.Millisecond, Close: store.Close,
		}
	})
}
