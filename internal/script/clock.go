package script

import (
	"sync/atomic"
	"time"
)

// clock knows how far Redis's clock on a node is ahead of the time since it was made, at most. The
// replies to timed calls teach it: Redis read its clock after each was sent.
type clock struct {
	began time.Time
	ahead atomic.Int64 // milliseconds; 0: it is not known
}

// deadline returns when a call ends by Redis's clock, or a little later; 0: never, or that is not
// known.
func (c *clock) deadline(d *Deadline) int64 {
	ahead := c.ahead.Load()
	if ahead == 0 || d.end.IsZero() {
		return 0
	}
	return d.end.Sub(c.began).Milliseconds() + 1 + ahead
}

// learn takes the time out of the reply to a timed call that was sent then. Of several, the least
// is the best.
func (c *clock) learn(call *Call, reply *Reply, sent time.Time) {
	last := len(reply.Integers) - 1
	if !call.Timed || last < call.Integers {
		return
	}
	ahead := reply.Integers[last] - sent.Sub(c.began).Milliseconds() + 1
	reply.Integers = reply.Integers[:last]
	for before := c.ahead.Load(); (before == 0 || ahead < before) && !c.ahead.CompareAndSwap(before, ahead); {
		before = c.ahead.Load()
	}
}

// forget is for a clock that has stepped on.
func (c *clock) forget() { c.ahead.Store(0) }
