package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// Wait is how long the fleet's documents of a level took from when they were due until Done, in the
// queue and in work.
type Wait struct {
	// Documents is how many were done in the last minute or, at level 1, in the last hour if
	// none was in the last minute. 0: how long a document takes is not known.
	Documents int64

	// Median and P95 are the times within which half of them and 95 of 100 were done, and
	// at most 19 % too long. Of fewer than 20 documents, P95 is the longest time.
	Median, P95 time.Duration

	// Longer reports that a new document is likely to take longer, as a backlog of customers
	// whom the reports name comes before it: at the pace of the last minute, or of one worker
	// who takes Median for each if that is faster, it alone takes more than twice P95.
	Longer bool
}

const (
	waitsLast    = 5 * time.Second // until they are read again: reports are no newer
	waitsTimeout = 2 * time.Second // of reading them
	mostPeeked   = 100             // customers whose backlogs are looked at
)

// WaitOf returns how long documents of a level take, for an application that tells its users.
// The wait is not known, and Documents is 0, while none of the level is done. Nor is the last
// hour used for level 1 while a customer who does not flood waits longer than its P95.
//
// All calls share what was read from Redis in the last five seconds, errors included. Reading
// ends within two seconds; a caller's ctx ends only its own call.
func (m *Member) WaitOf(ctx context.Context, level priority.Level) (Wait, error) {
	latest := m.latestWaits()
	select {
	case <-latest.ended:
		return latest.byLevel[level], latest.err
	case <-ctx.Done():
		return Wait{}, fmt.Errorf("fleet: the reports are still being read: %w", ctx.Err())
	}
}

// waits are those of all levels, as they were read once.
type waits struct {
	began   time.Time
	ended   chan struct{} // closed when the fields below are set
	byLevel map[priority.Level]Wait
	err     error
}

// latestWaits returns the latest waits, which may still be read, or begins to read them again.
// No caller's ctx ends that, as others wait for it too.
func (m *Member) latestWaits() *waits {
	m.waiting.Lock()
	defer m.waiting.Unlock()
	if m.waits == nil || time.Since(m.waits.began) >= waitsLast {
		next := &waits{began: time.Now(), ended: make(chan struct{})}
		m.waits = next
		go func() {
			defer close(next.ended)
			ctx, cancel := context.WithTimeout(context.Background(), waitsTimeout)
			defer cancel()
			next.byLevel, next.err = m.readWaits(ctx)
		}()
	}
	return m.waits
}

func (m *Member) readWaits(ctx context.Context) (map[priority.Level]Wait, error) {
	reports, err := Read(ctx, m.writer.client, m.store.Prefix())
	if err != nil {
		return nil, err
	}
	totals := Add(reports)
	waiting := slices.DeleteFunc(totals.Busiest, func(b Busy) bool { return b.Pending == 0 })
	slices.SortFunc(waiting, func(a, b Busy) int { return cmp.Compare(b.Pending, a.Pending) })
	var names []string
	for _, b := range waiting[:min(mostPeeked, len(waiting))] {
		names = append(names, b.Customer)
	}
	states, _ := m.store.PeekEach(ctx, names) // where a part of Redis fails, the others' backlogs are known
	return waitsOf(totals, states), nil
}

// waitsOf returns the waits of the levels at which documents were done. The states are those of
// customers with documents pending.
func waitsOf(t Totals, states []priority.State) map[priority.Level]Wait {
	waits := make(map[priority.Level]Wait)
	for level, h := range t.Waits {
		wait := waitOf(h)
		var before, done int64 // documents of this level and of those before it
		for _, state := range states {
			if state.Level <= level { // the newest document's; 0 if none is pending
				before += state.Pending
			}
		}
		for other, h := range t.Waits {
			if other <= level {
				done += h.Count()
			}
		}
		each := min(t.Window.Seconds()/float64(done), wait.Median.Seconds()) // a calm fleet's pace is what it gets
		wait.Longer = float64(before-1)*each > 2*wait.P95.Seconds()          // 1: the caller's own
		waits[level] = wait
	}
	hour := waitOf(t.FirstHour)
	stuck := slices.ContainsFunc(states, func(s priority.State) bool {
		return s.Oldest > hour.P95 && (s.PendingFlood == 0 || len(waits) == 0) // a flood waits, unless nobody works
	})
	if waits[priority.First].Documents == 0 && !stuck {
		waits[priority.First] = hour
	}
	return waits
}

func waitOf(h Histogram) Wait { return Wait{Documents: h.Count(), Median: h.Median(), P95: h.P95()} }
