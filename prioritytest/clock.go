package prioritytest

import (
	"sync"
	"time"

	"github.com/docpriority/priority/memory"
)

// Clock is a clock that stands still until it is moved. The zero Clock shows
// midnight UTC on 2000-01-01. It is safe for concurrent use.
type Clock struct {
	mu     sync.Mutex
	passed time.Duration // since began
}

var began = time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return began.Add(c.passed)
}

// Advance moves the clock on. It panics if d is negative.
func (c *Clock) Advance(d time.Duration) {
	if d < 0 {
		panic("prioritytest: Advance by " + d.String() + " would go back")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed += d
}

// Set moves the clock to a time, at most 292 years from the zero Clock's. It may
// go back, as when a machine's clock is corrected.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed = now.Sub(began)
}

// NewStore returns an in-memory store on clock. Nil opts are the defaults;
// opts.Now is not used. It panics if the options are invalid.
func NewStore(clock *Clock, opts *memory.Options) *memory.Store {
	var moved memory.Options
	if opts != nil {
		moved = *opts
	}
	moved.Now = clock.Now
	store, err := memory.New(&moved)
	if err != nil {
		panic(err)
	}
	return store
}
