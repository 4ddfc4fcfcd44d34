package priority_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

// The zero MemoryStore, the one without options and the one with zero options are
// the same.
func TestMemoryStoreDefaults(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]priority.Store{
		"zero value":   new(priority.MemoryStore),
		"nil options":  must(priority.NewMemoryStore(nil))(t),
		"zero options": must(priority.NewMemoryStore(&priority.MemoryOptions{}))(t),
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{Store: store, slack: handSlack} // by the real clock
			w.peek(t, "acme", priority.Decision{Level: 1})
			w.next(t, "acme", counted(0))
			w.nextN(t, "acme", 3, countdown(-1, 3)...)
			w.nextEach(t, []string{"acme", "globex"}, counted(-4), counted(0))
			w.reset(t, "acme")
			w.next(t, "acme", counted(0))
		})
	}
}

// A MemoryStore does not keep the customers who are gone. (Not parallel: it looks
// at the memory of the whole process.)
func TestMemoryStoreForgets(t *testing.T) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		w := openMemory(t, rule{policy: priority.Policy{ResetMode: mode}})
		// Each interval has customers of its own, and one who comes always.
		interval := func(n int) {
			for i := range 1000 {
				w.next(t, fmt.Sprint(n, " ", i), counted(0))
			}
			if _, err := w.Next(t.Context(), "always"); err != nil {
				t.Fatal(err)
			}
			w.wait(quiet + time.Millisecond)
		}
		empty := heap()
		for n := range 5 {
			interval(n)
		}
		five := heap() - empty
		for n := range 100 {
			interval(5 + n)
		}
		if more := heap() - empty; more > 3*five {
			t.Errorf("%v: the customers of 5 intervals take %d bytes, those of 105 take %d", mode, five, more)
		}
		runtime.KeepAlive(w)
	}
}

// heap returns how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // and what the first made free
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
