package script

import (
	"context"
	"time"
)

// Deadline is the time that one call of a store has, for all its tries.
type Deadline struct {
	caller     context.Context
	tries, end time.Time // zero: there is no deadline

	context context.Context // of the tries; made when somebody needs it
	cancel  context.CancelFunc

	alarm chan struct{} // what does in its place, for less
	timer *time.Timer
	leave func() bool
}

// Begin begins a call that has until ctx's deadline, and at most timeout unless
// that is negative. The context of the tries ends a tenth of the time earlier, at
// most 25 ms: what is left is for finding out why there was no connection.
func Begin(ctx context.Context, timeout time.Duration) Deadline {
	end, bounded := ctx.Deadline()
	if timeout >= 0 {
		if own := time.Now().Add(timeout); !bounded || own.Before(end) {
			end, bounded = own, true
		}
	}
	if !bounded {
		return Deadline{caller: ctx, context: ctx}
	}
	share := min(max(time.Until(end), 0)/10, 25*time.Millisecond)
	return Deadline{caller: ctx, tries: end.Add(-share), end: end}
}

// End frees what the call holds. Nothing of it may be used afterwards.
func (d *Deadline) End() {
	if d.cancel != nil {
		d.cancel()
	}
	if d.timer != nil {
		d.timer.Stop()
	}
	if d.leave != nil {
		d.leave()
	}
}

// Context returns the context of the tries. The first call makes it, and is not safe
// for concurrent use.
func (d *Deadline) Context() context.Context {
	if d.context == nil {
		// As this is before the caller's own deadline it ends by its own timer, even
		// where the caller's context never says that it has ended.
		d.context, d.cancel = context.WithDeadline(d.caller, d.tries)
	}
	return d.context
}

// Err returns why the tries have ended, or nil.
func (d *Deadline) Err() error {
	if d.context != nil {
		return d.context.Err()
	}
	if err := d.caller.Err(); err != nil {
		return err
	}
	if time.Now().Before(d.tries) {
		return nil
	}
	return context.DeadlineExceeded
}

// endless tells that nothing can end the call but its answer.
func (d *Deadline) endless() bool { return d.end.IsZero() && d.caller.Done() == nil }

// over returns a channel on which the one who waits hears that the time of the tries
// is over.
func (d *Deadline) over() <-chan struct{} {
	switch {
	case d.context != nil:
		return d.context.Done()
	case d.alarm == nil:
		alarm := make(chan struct{}, 1)
		ring := func() {
			select {
			case alarm <- struct{}{}:
			default:
			}
		}
		d.alarm, d.timer = alarm, time.AfterFunc(time.Until(d.tries), ring)
		if d.caller.Done() != nil {
			d.leave = context.AfterFunc(d.caller, ring)
		}
	}
	return d.alarm
}

// rest returns a context that ends when what is left after the tries' context has
// ended is over too, at once if that is how the caller wants it.
func (d *Deadline) rest() (context.Context, context.CancelFunc) {
	if d.end.IsZero() {
		return d.caller, func() {}
	}
	return context.WithDeadline(d.caller, d.end)
}

// pause waits for a while. It returns false if the time ends first.
func (d *Deadline) pause(long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.Context().Done():
		return false
	}
}
