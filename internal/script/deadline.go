package script

import (
	"context"
	"time"
)

// Deadline is the time that one call of a store has, for all its tries.
type Deadline struct {
	caller  context.Context
	long    time.Duration   // from the beginning to the end
	end     time.Time       // zero: there is none
	context context.Context // ends when it is too late for another try
	cancel  context.CancelFunc
}

// LongestShare is the most of its time that a call keeps for finding out why there was no
// connection.
const LongestShare = 25 * time.Millisecond

// Begin begins a call that has until ctx's deadline, and at most timeout unless
// that is negative. Its tries end a tenth of the time earlier, at most LongestShare.
func Begin(ctx context.Context, timeout time.Duration) Deadline {
	end, bounded := ctx.Deadline()
	if timeout >= 0 {
		if own := time.Now().Add(timeout); !bounded || own.Before(end) {
			end, bounded = own, true
		}
	}
	if !bounded {
		return Deadline{caller: ctx, context: ctx, cancel: func() {}}
	}
	long := max(time.Until(end), 0)
	share := min(long/10, LongestShare)
	// As this is before the caller's own deadline it ends by its own timer, even where
	// the caller's context never says that it has ended.
	tries, cancel := context.WithDeadline(ctx, end.Add(-share))
	return Deadline{caller: ctx, long: long, end: end, context: tries, cancel: cancel}
}

// End frees what the call holds. Nothing of it may be used afterwards.
func (d *Deadline) End() { d.cancel() }

// Err returns why the tries have ended, or nil.
func (d *Deadline) Err() error { return d.context.Err() }

// endless reports whether nothing can end the call but its answer.
func (d *Deadline) endless() bool { return d.context.Done() == nil }

// rest returns a context that ends when what is left after the tries is over too, at
// once if the caller has gone.
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
	case <-d.context.Done():
		return false
	}
}

// lasting is the context in which a job is sent. It has what the call's context holds, but does
// not end with it: a connection that takes longer to make is then there for a later call.
type lasting struct {
	context.Context
	job  job
	long time.Duration // what the whole call has; 0: no end

	panicked any // what a user's hook panicked with
}

// end ends a job. A panic goes to the caller, who may recover: in the job's own goroutine it
// would end the process.
func (l *lasting) end() *overdue {
	if l.panicked != nil {
		panic(l.panicked)
	}
	return nil
}

// Deadline is asked for before each write and each read, by a client that heeds deadlines. An
// answer may take as long as a whole call: a connection on which it takes longer is of no use.
func (l *lasting) Deadline() (time.Time, bool) {
	if l.long > 0 && l.job.written() {
		return time.Now().Add(l.long), true
	}
	return time.Time{}, false
}

func (*lasting) Done() <-chan struct{} { return nil }
func (*lasting) Err() error            { return nil }
