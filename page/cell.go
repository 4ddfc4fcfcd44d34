package page

import (
	"context"
	"errors"
	"sync"
	"time"
)

// patience is how long a request waits for Redis before it shows the last known
// value.
const patience = 1500 * time.Millisecond

// errClosed is the error of a request after Close.
var errClosed = errors.New("the page was closed")

// looked is the result of the last lookup.
type looked[T any] struct {
	value T
	at    time.Time // when value was read; zero: never
	err   error     // why the last lookup failed, or nil
	late  bool      // the lookup under way has taken longer than requests wait
}

// cell holds the result of the last lookup, for all who ask. However many ask, one
// lookup is under way at a time, and begins at most once in an interval.
type cell[T any] struct {
	background *background
	every      time.Duration
	failed     time.Duration // in place of every, after a lookup that failed
	look       func(ctx context.Context) (T, error)

	mu      sync.Mutex // guards the fields below
	last    looked[T]
	began   time.Time     // when the last lookup began
	asked   time.Time     // when somebody last asked
	flight  chan struct{} // closed when the lookup ends; nil: no lookup is under way
	expired bool          // the lookup under way may find what was there before a change
}

func newCell[T any](background *background, every time.Duration, look func(ctx context.Context) (T, error)) *cell[T] {
	return &cell[T]{background: background, every: every, failed: every, look: look}
}

// get returns a value that was looked up at most an interval ago, or else the last
// known value and why it is not newer.
func (c *cell[T]) get(ctx context.Context) looked[T] {
	patient := time.NewTimer(patience)
	defer patient.Stop()
	for {
		flight, fresh, last := c.join()
		if flight == nil {
			return last
		}
		select {
		case <-flight:
			if fresh {
				return c.known()
			}
		case <-patient.C:
			last.late = true
			return last
		case <-ctx.Done():
			last.late = true
			return last
		}
	}
}

// getSoon returns the known value at once, and begins a lookup if it is too old.
func (c *cell[T]) getSoon() looked[T] {
	_, _, last := c.join()
	return last
}

// join returns the lookup to wait for, or nil, and the known value.
func (c *cell[T]) join() (flight chan struct{}, fresh bool, last looked[T]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked = time.Now()
	every := c.every
	if c.last.err != nil {
		every = c.failed
	}
	if c.flight == nil && (c.began.IsZero() || time.Since(c.began) >= every) {
		flight := make(chan struct{})
		c.flight, c.began, c.expired = flight, time.Now(), false
		if !c.background.begin(func(ctx context.Context) { c.run(ctx, flight) }) {
			c.flight, c.last.err = nil, errClosed
		}
	}
	return c.flight, !c.expired, c.last
}

func (c *cell[T]) run(ctx context.Context, flight chan struct{}) {
	value, err := c.look(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last.err = err; err == nil {
		c.last.value, c.last.at = value, time.Now()
	}
	if c.expired {
		c.began = time.Time{}
	}
	c.flight = nil
	close(flight)
}

// expire makes the next get look again, after a change.
func (c *cell[T]) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.began, c.expired = time.Time{}, true
}

// known returns the known value without a lookup.
func (c *cell[T]) known() looked[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// idle returns how long nobody has asked.
func (c *cell[T]) idle() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.asked)
}

// cells has a cell for each of the keys that were last asked for.
type cells[K comparable, T any] struct {
	background *background
	every      time.Duration
	most       int
	look       func(ctx context.Context, key K) (T, error)

	mu  sync.Mutex // guards all
	all map[K]*cell[T]
}

func newCells[K comparable, T any](background *background, every time.Duration, most int, look func(ctx context.Context, key K) (T, error)) *cells[K, T] {
	return &cells[K, T]{background: background, every: every, most: most, look: look, all: make(map[K]*cell[T])}
}

func (c *cells[K, T]) get(ctx context.Context, key K) looked[T] { return c.of(key).get(ctx) }

// of returns the cell of a key. If there are too many cells, it forgets the least
// recently used.
func (c *cells[K, T]) of(key K) *cell[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, ok := c.all[key]
	if ok {
		return found
	}
	if len(c.all) >= c.most {
		var oldest K
		longest := time.Duration(-1)
		for key, cell := range c.all {
			if idle := cell.idle(); idle > longest {
				oldest, longest = key, idle
			}
		}
		delete(c.all, oldest)
	}
	found = newCell(c.background, c.every, func(ctx context.Context) (T, error) { return c.look(ctx, key) })
	c.all[key] = found
	return found
}

// expire makes the next get of every key look again.
func (c *cells[K, T]) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cell := range c.all {
		cell.expire()
	}
}
