package insight

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/backlog"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Level is what happened at a level in the last minute, and what waits there now.
type Level struct {
	Level   priority.Level `json:"level"`
	ByCount int64          `json:"by_count"` // documents that got the level by count
	ByLoad  int64          `json:"by_load"`  // documents that got the level by load
	Waits

	// Pending is how many documents of the level are pending, of the customers that the
	// workers' reports name, and OldestMS the age of the oldest.
	Pending  int64 `json:"pending"`
	OldestMS int64 `json:"oldest_ms"`

	Waiting backlog.Document `json:"-"` // the oldest one
}

// Documents is how many documents were given the level.
func (l Level) Documents() int64 { return l.ByCount + l.ByLoad }

// Oldest is the age of the oldest pending document.
func (l Level) Oldest() time.Duration { return milliseconds(l.OldestMS) }

// Stuck reports whether documents wait and none was done.
func (l Level) Stuck() bool { return l.Pending > 0 && l.Done == 0 && l.Oldest() > time.Minute }

// Waits are how long documents of a level took from when they were due until Done, of those that were done in
// the last minute. 0: none was.
type Waits struct {
	Done     int64 `json:"done"` // documents
	MedianMS int64 `json:"median_ms"`
	P95MS    int64 `json:"p95_ms"`
}

func waitsOf(h fleet.Histogram) Waits {
	return Waits{h.Count(), h.Median().Milliseconds(), h.P95().Milliseconds()}
}

// Median and P95 return the durations.
func (w Waits) Median() time.Duration { return milliseconds(w.MedianMS) }
func (w Waits) P95() time.Duration    { return milliseconds(w.P95MS) }

// Busy is a customer that the workers' reports name, as it is now.
type Busy struct {
	Brief
	Documents   int64          `json:"documents"` // how many came in the last minute
	LatestLevel priority.Level `json:"latest_level"`
}

// pending is how many documents of the customer are pending, by load.
func (b Busy) pending() int64 {
	if b.State == nil {
		return 0
	}
	return b.State.Pending
}

// Top is what a fleet did in the last minute, and what waits.
type Top struct {
	Levels  []Level `json:"levels"`  // from level 1 on
	Busiest []Busy  `json:"busiest"` // the customers with the most documents first, then those with the most pending
	Missing Missing `json:"-"`       // why the State of some is nil
}

// mostLooked is how many customers with documents are looked at, and as many with pending ones only.
const mostLooked = 100

// Top looks the customers up that the workers' reports name.
func (s *Snapshot) Top(ctx context.Context) (*Top, error) {
	t := &Top{Levels: s.levels(), Busiest: []Busy{}}
	customers := lookedAt(s.busiest)
	names := make([]string, len(customers))
	for at, b := range customers {
		names[at] = b.Customer
	}
	states, err := s.Store.PeekEach(ctx, names)
	for at, err := range itemerrors.Of(err, len(customers)) {
		brief := Brief{Name: customer.NameOf(names[at])}
		switch {
		case err == nil || errors.Is(err, priority.ErrCorrupt):
			brief, _ = s.brief(names[at], &states[at], err)
		case len(s.Masters) == 1:
			return nil, cause(err)
		default:
			t.Missing.Add(cause(err))
		}
		busy := Busy{brief, customers[at].Documents, customers[at].Level}
		if err != nil || busy.Documents+busy.pending() > 0 { // others were busy, and no document waits any more
			t.Busiest = append(t.Busiest, busy)
		}
	}
	return t, s.addBacklogs(ctx, t)
}

// levels returns the levels of the queue, and any later one that a worker reports.
func (s *Snapshot) levels() []Level {
	last, all := s.Last, s.Totals
	for _, reported := range []iter.Seq[priority.Level]{maps.Keys(all.ByCount), maps.Keys(all.ByLoad), maps.Keys(all.Waits)} {
		for level := range reported {
			last = max(last, level)
		}
	}
	levels := make([]Level, last)
	for at := range levels {
		level := priority.First + priority.Level(at)
		levels[at] = Level{Level: level, ByCount: all.ByCount[level], ByLoad: all.ByLoad[level], Waits: waitsOf(all.Waits[level])}
	}
	return levels
}

// lookedAt returns the customers to look up: the busiest, and those with the most pending.
func lookedAt(all []fleet.Busy) []fleet.Busy {
	var busy, others []fleet.Busy
	for _, b := range all {
		if b.Documents > 0 && len(busy) < mostLooked {
			busy = append(busy, b)
		} else if b.Pending > 0 {
			others = append(others, b)
		}
	}
	slices.SortFunc(others, func(a, b fleet.Busy) int { return cmp.Compare(b.Pending, a.Pending) })
	return append(busy, others[:min(mostLooked, len(others))]...)
}

// addBacklogs adds the pending documents of customers to the levels that the documents have.
func (s *Snapshot) addBacklogs(ctx context.Context, t *Top) error {
	var waiting []backlog.Customer
	for _, b := range t.Busiest {
		if b.pending() > 0 {
			waiting = append(waiting, backlog.Customer{Name: b.Exact(), State: *b.State})
		}
	}
	documents, err := s.backlogs().Documents(ctx, waiting)
	for level, waits := range backlog.Levels(waiting, documents) {
		if level >= priority.First && int(level) <= len(t.Levels) {
			l := &t.Levels[level-1]
			l.Pending, l.OldestMS, l.Waiting = waits.Pending, waits.Oldest.Age.Milliseconds(), waits.Oldest
		}
	}
	return err
}

func (s *Snapshot) backlogs() backlog.Reader {
	return backlog.Reader{Client: s.Client, Store: s.Store, Began: s.Now, Now: s.Now.Add(time.Since(s.At))}
}
