package script

import (
	"context"
	"time"
)

// Deadline is the time that one call of a store has, for all its tries.
type Deadline struct {
	context.Context                 // the caller's, until shortly before end
	caller          context.Context // the caller's own
	end             time.Time       // zero: there is no deadline
}

// Begin begins a call that has until ctx's deadline, and at most timeout unless
// that is negative. The context of the tries ends a tenth of the time earlier, at
// most 25 ms: what is left is for finding out why there was no connection.
func Begin(ctx context.Context, timeout time.Duration) (Deadline, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if timeout >= 0 {
		if own := time.Now().Add(timeout); !bounded || own.Before(end) {
			end, bounded = own, true
		}
	}
	if !bounded {
		return Deadline{Context: ctx, caller: ctx}, func() {}
	}
	// As this is before ctx's own deadline it ends by its own timer, even where ctx
	// never says that it has ended.
	share := min(max(time.Until(end), 0)/10, 25*time.Millisecond)
	tries, cancel := context.WithDeadline(ctx, end.Add(-share))
	return Deadline{Context: tries, caller: ctx, end: end}, cancel
}

// rest returns a channel that receives when what is left after the tries' context
// has ended is over too, at once if that is how the caller wants it.
func (d *Deadline) rest() <-chan time.Time {
	if d.end.IsZero() || d.caller.Err() != nil {
		return closed
	}
	return time.After(time.Until(d.end))
}

var closed = func() <-chan time.Time {
	c := make(chan time.Time)
	close(c)
	return c
}()

// pause waits for a while. It returns false if the time ends first.
func (d *Deadline) pause(long time.Duration) bool {
	timer := time.NewTimer(long)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-d.Done():
		return false
	}
}
