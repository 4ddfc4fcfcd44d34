package fallback

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// mostTrials is how many trials in a row, with no failure in between, prove as much
// as a document that is counted.
const mostTrials = 10

// circuit counts the failures of the primary. Many in a row open it. A trial that
// works closes it again, at first on trust: then one failure is enough to open it,
// until a document was counted. For a Redis that is full takes the trials.
type circuit struct {
	most int32 // failures in a row

	isOpen, isFailing, onTrust atomic.Bool // an open or trusted circuit is failing
	failures                   atomic.Int32

	mu     sync.Mutex // of all writes
	trials int        // that worked on trust
	cause  error      // the last failure
}

func (c *circuit) open() bool { return c.isOpen.Load() }

// failing reports whether the last call failed, or the circuit is not closed for
// good.
func (c *circuit) failing() bool { return c.isFailing.Load() }

// event is what a call of the primary tells of it.
type event int

const (
	nothing   event = iota
	failed          // it failed
	opened          // it failed, and that opened the circuit
	recovered       // the circuit is closed for good
)

// note notes what a call of the primary came to, one that counts documents or one
// that does not. What a caller's own context or arguments brought about says nothing.
func (c *circuit) note(ctx context.Context, err error, counts bool) event {
	if reached(err) {
		if c.failures.Load() > 0 || c.isFailing.Load() {
			return c.succeed(counts)
		}
		return nothing
	}
	if errors.Is(err, priority.ErrInvalid) || impatient(ctx, err) {
		return nothing
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isFailing.Store(true)
	c.cause = err
	if c.failures.Add(1) < c.most || c.isOpen.Load() {
		return failed
	}
	c.isOpen.Store(true)
	c.onTrust.Store(false)
	return opened
}

// impatient reports that the caller's own context has ended, or is about to: a
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
	if c.isOpen.Load() || c.onTrust.Load() && !counts {
		return nothing
	}
	return c.end()
}

// tried notes a trial that worked.
func (c *circuit) tried() event {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOpen.Load() {
		c.failures.Store(c.most - 1)
		c.trials = 0
		c.onTrust.Store(true)
		c.isOpen.Store(false)
	}
	if !c.onTrust.Load() {
		c.isFailing.Store(false) // but the failures count, if the next call fails too
		return nothing
	}
	if c.trials++; c.trials < mostTrials {
		return nothing
	}
	return c.end()
}

// end ends the failures in a row. The caller holds mu.
func (c *circuit) end() event {
	c.failures.Store(0)
	c.isFailing.Store(false)
	if c.onTrust.Swap(false) {
		c.cause = nil
		return recovered
	}
	return nothing
}

// away reports whether the circuit is open or closed on trust only, and why.
func (c *circuit) away() (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.isOpen.Load() || c.onTrust.Load(), c.cause
}

// reached reports whether an error, of a batch that of any entry, shows that the
// primary works. A corrupt count is one customer's trouble.
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
