package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Level is what happened at a level in the last minute, and what waits there now.
type Level struct {
	Level   priority.Level `json:"level"`
	ByCount int64          `json:"by_count"` // documents that got the level by count
	ByLoad  int64          `json:"by_load"`  // documents that got the level by load

	// Done is how many documents of the level were done, and MedianMS and P95MS how long
	// they took from Submit to Done; 0: no document was done.
	Done     int64 `json:"done"`
	MedianMS int64 `json:"median_ms"`
	P95MS    int64 `json:"p95_ms"`

	// Pending is how many documents of the level are pending, of the customers that the
	// workers' reports name, and OldestMS the age of the oldest.
	Pending  int64 `json:"pending"`
	OldestMS int64 `json:"oldest_ms"`
}

// Documents is how many documents were given the level.
func (l Level) Documents() int64 { return l.ByCount + l.ByLoad }

// Stuck reports whether documents wait and none was done.
func (l Level) Stuck() bool {
	return l.Pending > 0 && l.Done == 0 && l.OldestMS > time.Minute.Milliseconds()
}

// Median, P95 and Oldest return the durations.
func (l Level) Median() time.Duration { return milliseconds(l.MedianMS) }
func (l Level) P95() time.Duration    { return milliseconds(l.P95MS) }
func (l Level) Oldest() time.Duration { return milliseconds(l.OldestMS) }

// Busy is a customer that the workers' reports name.
type Busy struct {
	Name
	Documents int64          `json:"documents"`  // in the last minute
	LastLevel priority.Level `json:"last_level"` // of the last document
	*State                   // as it is now; nil: a key is corrupt
}

// pending is how many documents of the customer are pending, by load.
func (b Busy) pending() int64 {
	if b.State == nil {
		return 0
	}
	return b.Pending
}

// Top is what a fleet did in the last minute, and what waits.
type Top struct {
	Levels  []Level `json:"levels"`  // from level 1
	Busiest []Busy  `json:"busiest"` // the customers with the most documents first, then those with the most pending
}

const (
	mostLooked  = 100  // customers with documents, and as many with pending ones only
	mostBacklog = 1000 // documents of a customer that are looked at
)

// Top looks the customers up that the workers' reports name.
func (s *Snapshot) Top(ctx context.Context) (*Top, error) {
	t := &Top{Busiest: []Busy{}}
	last, all := s.Last, s.Totals
	for _, levels := range [][]priority.Level{slices.Collect(maps.Keys(all.ByCount)), slices.Collect(maps.Keys(all.ByLoad)), slices.Collect(maps.Keys(all.Waits))} {
		last = max(last, slices.Max(append(levels, 1)))
	}
	t.Levels = make([]Level, last)
	for at := range t.Levels {
		level := priority.First + priority.Level(at)
		waits := all.Waits[level]
		t.Levels[at] = Level{
			Level: level, ByCount: all.ByCount[level], ByLoad: all.ByLoad[level],
			Done: waits.Count(), MedianMS: waits.Median().Milliseconds(), P95MS: waits.P95().Milliseconds(),
		}
	}
	customers := lookedAt(all.Busiest)
	names := make([]string, len(customers))
	for at, b := range customers {
		names[at] = b.Customer
	}
	states, err := s.Store.PeekEach(ctx, names)
	var waiting []int
	for at, err := range itemerrors.Of(err, len(customers)) {
		b := customers[at]
		busy := Busy{Name: NameOf(b.Customer), Documents: b.Documents, LastLevel: b.Level}
		switch {
		case err == nil:
			state := stateOf(states[at])
			busy.State = &state
			if state.Pending > 0 {
				waiting = append(waiting, at)
			} else if b.Documents == 0 {
				continue // it was busy, and no document waits any more
			}
		case !errors.Is(err, priority.ErrCorrupt):
			return nil, cause(err)
		}
		t.Busiest = append(t.Busiest, busy)
	}
	return t, s.addBacklogs(ctx, t, names, states, waiting)
}

// lookedAt returns the customers to look up: the busiest, and those with the most pending.
func lookedAt(all []fleet.Busy) []fleet.Busy {
	busy, others := []fleet.Busy{}, []fleet.Busy{}
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

// addBacklogs adds the pending documents of customers to the levels that the documents
// have. Of a customer with more than mostBacklog, the oldest are looked at, and the others
// count at the newest one's level.
func (s *Snapshot) addBacklogs(ctx context.Context, t *Top, names []string, states []priority.State, waiting []int) error {
	pipe := s.Client.Pipeline()
	ranges := make([][2]*redis.ZSliceCmd, len(waiting))
	for n, at := range waiting {
		key, since := s.Store.Keys(names[at]).Pending, 256*(s.Now.UnixMilli()-states[at].Lease.Milliseconds())
		ranges[n] = [2]*redis.ZSliceCmd{
			redis.NewZSliceCmd(ctx, "zrange", key, since, "+inf", "byscore", "limit", 0, mostBacklog, "withscores"),
			// A flood's documents have negative scores, the oldest next to zero.
			redis.NewZSliceCmd(ctx, "zrange", key, -since, "-inf", "byscore", "rev", "limit", 0, mostBacklog, "withscores"),
		}
		_, _ = pipe.Process(ctx, ranges[n][0]), pipe.Process(ctx, ranges[n][1])
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("pending documents: %w", err)
	}
	for n, at := range waiting {
		left, youngest := states[at].Pending, int64(math.MaxInt64)
		for _, documents := range ranges[n] {
			for _, document := range documents.Val() {
				score := int64(math.Abs(document.Score))
				age := s.Now.UnixMilli() - score/256
				if t.wait(priority.Level(score%256), 1, age) {
					left, youngest = left-1, min(youngest, age)
				}
			}
		}
		if left > 0 { // younger than all that were looked at
			t.wait(states[at].Level, left, youngest)
		}
	}
	return nil
}

// wait adds pending documents to a level.
func (t *Top) wait(level priority.Level, n, ageMS int64) bool {
	if level < priority.First || int(level) > len(t.Levels) {
		return false
	}
	l := &t.Levels[level-1]
	l.Pending += n
	l.OldestMS = max(l.OldestMS, ageMS)
	return true
}
