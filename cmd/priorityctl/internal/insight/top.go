package insight

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"math"
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

	// Pending is how many documents of the level are pending, of the customers that the workers'
	// reports name, and OldestMS the age of the oldest. AtLeast: there may be more, as not all
	// were read or named, or some are counted by Next, which does not know what is pending.
	Pending  int64 `json:"pending"`
	AtLeast  bool  `json:"at_least,omitempty"`
	OldestMS int64 `json:"oldest_ms"`

	documents []backlog.Document // those that were read, and wait longer than their customer's take as a rule
	longest   time.Duration      // of these
	late      time.Duration      // beyond this age they do not wait for others
	stuck     bool
}

// Documents is how many documents were given the level.
func (l Level) Documents() int64 { return l.ByCount + l.ByLoad }

// Oldest is the age of the oldest pending document.
func (l Level) Oldest() time.Duration { return milliseconds(l.OldestMS) }

// Known reports whether anything is known of what is pending.
func (l Level) Known() bool { return l.Pending > 0 || !l.AtLeast }

// PendingSays says in a table how many documents are pending.
func (l Level) PendingSays() string {
	switch {
	case !l.Known():
		return "-"
	case l.AtLeast:
		return "≥" + Group(l.Pending)
	}
	return Group(l.Pending)
}

// asARule is how many times a customer's average a document may take.
const asARule = 5

// minute is more than what the reports' last minute covers, with their age.
const minute = 75 * time.Second

// Stuck reports whether documents wait and none was done. A flood may wait while others are done.
func (l Level) Stuck() bool { return l.stuck }

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

	// Lost is how many documents got no Done within their lease, of the last day.
	Lost int64 `json:"lost,omitempty"`

	// FloodBegan is when the first document of the customer's backlog beyond the last load was
	// due; zero: there is none.
	FloodBegan time.Time `json:"flood_began,omitzero"`

	lost []backlog.Document // that are in Lost, and left in the last hour
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

	// Unread is how many pending documents are in no level, as they were not read.
	Unread int64 `json:"unread,omitempty"`
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
	var all []Busy
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
		all = append(all, Busy{Brief: brief, Documents: customers[at].Documents, LatestLevel: customers[at].Level})
	}
	if err := s.addLost(ctx, all); err != nil {
		return nil, err
	}
	for _, b := range all {
		if b.State == nil || b.Documents+b.pending()+b.State.Scheduled+b.Lost > 0 { // others were busy, and no document waits any more
			t.Busiest = append(t.Busiest, b)
		}
	}
	return t, s.addBacklogs(ctx, t)
}

// addLost adds the documents that left by their lease, and not by a Done.
func (s *Snapshot) addLost(ctx context.Context, all []Busy) error {
	var customers []backlog.Customer
	var busy []*Busy
	for i, b := range all {
		if b.State != nil && b.State.Rule == priority.ByLoad {
			customers, busy = append(customers, backlog.Customer{Name: b.Exact(), State: *b.State}), append(busy, &all[i])
		}
	}
	lost, err := s.backlogs().Lost(ctx, customers)
	for i, documents := range lost {
		busy[i].Lost = int64(len(documents))
		busy[i].lost = slices.DeleteFunc(documents, func(d backlog.Document) bool { return d.Age > busy[i].State.Lease+time.Hour })
	}
	return err
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
	var busy []*Busy
	for i, b := range t.Busiest {
		if b.pending() > 0 {
			waiting, busy = append(waiting, backlog.Customer{Name: b.Exact(), State: *b.State}), append(busy, &t.Busiest[i])
		}
	}
	documents, err := s.backlogs().Documents(ctx, waiting)
	levels := backlog.Levels(waiting, documents)
	atLeast := s.samples() || len(s.Totals.ByCount) > 0 || slices.ContainsFunc(s.busiest, func(b fleet.Busy) bool { return b.Rule == priority.ByCount })
	for i, all := range documents {
		t.Unread += max(busy[i].pending()-int64(len(all)), 0)
		for _, d := range all {
			if d.Flood && busy[i].FloodBegan.IsZero() {
				busy[i].FloodBegan = s.floodBegan(d)
			}
			if d.Age > asARule*busy[i].State.Latency && d.Level >= priority.First && int(d.Level) <= len(t.Levels) {
				l := &t.Levels[d.Level-1]
				l.documents, l.longest = append(l.documents, d), max(l.longest, d.Age)
			}
		}
	}
	passed := int64(0)
	for i := range t.Levels {
		l := &t.Levels[i]
		waits := levels[l.Level]
		l.Pending, l.AtLeast, l.OldestMS = waits.Pending, waits.AtLeast || atLeast, waits.Oldest.Age.Milliseconds()
		var mayWait bool
		l.late, mayWait = s.late(l.Level)
		if l.stuck = l.Done == 0 && l.longest > minute && !mayWait; l.stuck && l.longest > l.late {
			passed += l.Pending
		}
	}
	for i := range t.Levels { // few documents say more than the level
		l := &t.Levels[i]
		l.stuck = l.stuck && (passed > few || l.longest <= l.late)
	}
	return err
}

// late returns the age beyond which a document of a level does not wait for others: ten times as
// long as what is done there and before it takes. A flood may wait as long as others are done.
func (s *Snapshot) late(level priority.Level) (age time.Duration, mayWait bool) {
	longest, done := time.Duration(0), int64(0)
	for other, waits := range s.Totals.Waits {
		if done += waits.Count(); other <= level {
			longest = max(longest, waits.P95())
		}
	}
	mayWait = done > 0 && int(level) > len(s.Policies.Policy.Loads) && level <= s.Policies.Policy.Last()
	if done == 0 || mayWait && s.Totals.Waits[level].Count() == 0 {
		return math.MaxInt64, mayWait
	}
	return max(minute, 10*longest), mayWait
}

// A report names at most so many busy customers, and so many others who wait.
const busyOfReport, othersOfReport = 20, 10

// samples reports whether customers may wait whom no report names, as one names as many as it can.
func (s *Snapshot) samples() bool {
	return slices.ContainsFunc(s.Reports, func(r fleet.Report) bool {
		busy := 0
		for _, b := range r.Busiest {
			if b.Documents > 0 {
				busy++
			}
		}
		return busy >= busyOfReport || len(r.Busiest)-busy >= othersOfReport
	})
}

// floodBegan returns when the first document of a backlog was due, by this process's clock.
func (s *Snapshot) floodBegan(first backlog.Document) time.Time {
	return s.At.Add(-first.Age).UTC().Truncate(time.Second)
}

func (s *Snapshot) backlogs() backlog.Reader {
	return backlog.Reader{Client: s.Client, Store: s.Store, Began: s.Now, Now: s.Now.Add(time.Since(s.At))}
}
