package fallback

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// mostProbes is how many successful probes, with no failure in between, close a
// half-open circuit, as one counted document does.
const mostProbes = 10

// circuit counts the failures of the primary. Many in a row open it. A successful
// probe makes it half-open: calls go to the primary, and one failure opens it
// again. The first counted document closes it. A probe is not enough, as a Redis
// that is out of memory accepts probes but no documents.
type circuit struct {
	most int32 // failures in a row

	isOpen, isFailing, halfOpen atomic.Bool // an open or half-open circuit is failing
	failures                    atomic.Int32
	worked                      atomic.Bool   // for others, while it failed for some, since the last probe
	successes, counted          atomic.Uint64 // of all calls, and of those that count documents

	mu     sync.Mutex // of all writes
	probes int        // that succeeded while half-open
	cause  error      // the last failure
	doubts int        // failures that the next probe has to explain
}

func (c *circuit) open() bool { return c.isOpen.Load() }

// failing reports whether the last call failed, or the circuit is not closed.
func (c *circuit) failing() bool { return c.isFailing.Load() }

// event is what a call of the primary shows.
type event int

const (
	nothing   event = iota
	failed          // it failed
	doubted         // the caller's own deadline ended first
	opened          // it failed, and that opened the circuit
	recovered       // the circuit is closed again
)

// attempt is a call of the primary.
type attempt struct {
	counts  bool // documents
	before  uint64
	forSome bool // the primary is known to fail for some customers only
}

// begin begins a call, whose end note records.
func (c *circuit) begin(counts, forSome bool) attempt {
	return attempt{counts, c.succeeded(counts), forSome}
}

// succeeded returns how many calls have shown that the primary accepts such calls: if it
// is out of memory it still accepts Dones.
func (c *circuit) succeeded(counts bool) uint64 {
	if counts {
		return c.counted.Load()
	}
	return c.successes.Load()
}

// note records the outcome of a call of the primary. A call that was canceled or wrong
// shows nothing. If the caller's own deadline ended first, or the primary works for others,
// the next probe has to explain the failure.
func (c *circuit) note(ctx context.Context, err error, a attempt) event {
	if reached(err) {
		if c.successes.Add(1); a.counts {
			c.counted.Add(1)
		}
		if c.failures.Load() > 0 || c.isFailing.Load() {
			return c.succeed(a.counts)
		}
		return nothing
	}
	if errors.Is(err, priority.ErrInvalid) || errors.Is(ctx.Err(), context.Canceled) {
		return nothing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isFailing.Store(true)
	if impatient(ctx, err) {
		c.doubts++
		return doubted
	}
	c.cause = err
	if others := c.succeeded(a.counts) != a.before; others || a.forSome {
		if others {
			c.worked.Store(true)
		}
		c.doubts++
		return failed
	}
	c.failures.Add(1)
	return c.openIfMany()
}

// confirm records a probe that succeeded for no customer: the doubts were failures.
func (c *circuit) confirm(errs []error) event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubts > 0 && len(errs) > 0 {
		c.cause = errs[0]
	}
	c.failures.Add(int32(min(c.doubts, int(c.most))))
	c.doubts = 0
	return c.openIfMany()
}

// openIfMany opens the circuit after too many failures. The caller holds mu.
func (c *circuit) openIfMany() event {
	if c.failures.Load() < c.most || c.isOpen.Load() {
		return failed
	}
	c.isOpen.Store(true)
	c.halfOpen.Store(false)
	c.worked.Store(false)
	return opened
}

// impatient reports that the caller's own deadline has ended, or is about to: a
// RedisStore gives up shortly before.
func impatient(ctx context.Context, err error) bool {
	deadline, ok := ctx.Deadline()
	return ctx.Err() != nil || ok && errors.Is(err, context.DeadlineExceeded) && time.Until(deadline) <= 25*time.Millisecond
}

// succeed ends the failures in a row, unless the circuit is open: a call that began
// before it opened may end late.
func (c *circuit) succeed(counts bool) event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOpen.Load() {
		return nothing
	}
	c.worked.Store(true)
	c.doubts = 0
	if c.halfOpen.Load() && !counts {
		return nothing
	}
	return c.end()
}

// probed records a successful probe.
func (c *circuit) probed() event {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.doubts = 0
	if c.isOpen.Load() {
		c.failures.Store(c.most - 1)
		c.probes = 0
		c.halfOpen.Store(true)
		c.isOpen.Store(false)
	}
	if !c.halfOpen.Load() {
		c.isFailing.Store(false) // but the failures count, if the next call fails too
		return nothing
	}
	if c.probes++; c.probes < mostProbes {
		return nothing
	}
	return c.end()
}

// end ends the failures in a row. The caller holds mu.
func (c *circuit) end() event {
	c.failures.Store(0)
	c.isFailing.Store(false)
	if c.halfOpen.Swap(false) {
		c.cause = nil
		return recovered
	}
	return nothing
}

// away reports whether the circuit is open or half-open, and why.
func (c *circuit) away() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOpen.Load() || c.halfOpen.Load(), c.cause
}

// reached reports whether an error, or the error of any entry of a batch, shows
// that the primary works. A corrupt count is one customer's trouble.
func reached(err error) bool {
	var batch *priority.BatchError
	if !errors.As(err, &batch) {
		return err == nil || errors.Is(err, priority.ErrCorruptCount)
	}
	for i, err := range batch.Errs {
		if (i == 0 || err != batch.Errs[i-1]) && (err == nil || errors.Is(err, priority.ErrCorruptCount)) {
			return true
		}
	}
	return false
}
