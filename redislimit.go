package priority

import (
	"context"
	"time"
)

// limit is the context of a call with the store's timeout. It does what
// context.WithTimeout does for a fraction of the allocations, which are most of
// what a call costs its process. One goroutine waits on it; a nil limit, of a
// call that nothing bounds, never ends.
type limit struct {
	context.Context // the caller's

	deadline time.Time     // zero: the caller's alone
	timer    *time.Timer   // nil: the same
	answered chan struct{} // receives when a job is done that is still waited for
	done     chan struct{} // closed when the limit ends
	err      error         // why; set before done is closed
}

// newLimit begins a call.
func (c *caller) newLimit(ctx context.Context) *limit {
	if c.timeout < 0 && ctx.Done() == nil {
		return nil
	}
	l := &limit{Context: ctx, answered: make(chan struct{}), done: make(chan struct{})}
	if c.timeout >= 0 {
		l.deadline = time.Now().Add(c.timeout)
		if timer, ok := c.timers.Get().(*time.Timer); ok {
			timer.Reset(c.timeout)
			l.timer = timer
		} else {
			l.timer = time.NewTimer(c.timeout)
		}
	}
	return l
}

// release ends a call.
func (c *caller) release(l *limit) {
	if l != nil && l.timer != nil {
		l.timer.Stop()
		c.timers.Put(l.timer)
	}
}

// Deadline implements [context.Context].
func (l *limit) Deadline() (time.Time, bool) {
	deadline, ok := l.Context.Deadline()
	if !l.deadline.IsZero() && (!ok || l.deadline.Before(deadline)) {
		return l.deadline, true
	}
	return deadline, ok
}

// Done implements [context.Context].
func (l *limit) Done() <-chan struct{} { return l.done }

// Err implements [context.Context].
func (l *limit) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// context returns the limit as a context, or ctx where there is none.
func (l *limit) context(ctx context.Context) context.Context {
	if l == nil {
		return ctx
	}
	return l
}

func (l *limit) hasDeadline() bool {
	if l == nil {
		return false
	}
	_, ok := l.Deadline()
	return ok
}

// reason returns why the limit has ended, or nil.
func (l *limit) reason() error {
	if l == nil {
		return nil
	}
	return l.Err()
}

// over reports whether the limit has ended, without waiting.
func (l *limit) over() bool {
	if l.Err() != nil {
		return true
	}
	if err := l.Context.Err(); err != nil {
		l.end(err)
		return true
	}
	return false
}

// await waits for a channel. It returns false if the limit ends first.
func await[T any](l *limit, channel <-chan T) bool {
	if l == nil {
		<-channel
		return true
	}
	var timeout <-chan time.Time
	if l.timer != nil {
		timeout = l.timer.C
	}
	select {
	case <-channel:
		return true
	case <-l.Context.Done():
		l.end(l.Context.Err())
	case <-timeout:
		l.end(context.DeadlineExceeded)
	}
	return false
}

func (l *limit) end(err error) {
	l.err = err
	close(l.done)
}
