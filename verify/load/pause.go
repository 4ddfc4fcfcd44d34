package main

import (
	"context"
	"time"
)

// pause is for how long the machine did not let the process run, at the longest.
// Calls seem to take longer by it, and may overrun their timeout by as much.
type pause struct {
	ticked  time.Time
	longest time.Duration
}

const tick = 5 * time.Millisecond

// watch looks out for pauses until the context ends.
func (p *pause) watch(ctx context.Context) {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	p.ticked = time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			p.note(time.Now())
		}
	}
}

// note notes that the process ran at a time, which ought to be a tick after the
// last.
func (p *pause) note(now time.Time) {
	p.longest = max(p.longest, now.Sub(p.ticked)-tick)
	p.ticked = now
}
