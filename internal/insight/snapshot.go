package insight

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight/census"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Snapshot is what a fleet did in the last minute, as its workers report it. It does not
// change.
type Snapshot struct {
	At       time.Time `json:"at"`        // by this process's clock
	WindowMS int64     `json:"window_ms"` // what the numbers cover: the last minute, or less

	Workers    int `json:"workers"`     // that have reported
	Degraded   int `json:"degraded"`    // of these, workers that cannot reach Redis
	Unreadable int `json:"unreadable"`  // reports that cannot be read
	NotObeying int `json:"not_obeying"` // of both

	// Obedience says who follows all that operators have set, and who does not.
	Obedience Obedience `json:"-"`

	// Kept names rules that workers keep and Redis lost: see [Inspector.Kept].
	Kept string `json:"-"`

	ByCount    int64            `json:"by_count"` // documents, by the levels that callers got
	ByLoad     int64            `json:"by_load"`
	Overridden int64            `json:"overridden"` // of these documents, whose level an override has changed
	Fallback   int64            `json:"fallback"`   // of these documents, decided by a fallback
	Errors     map[string]int64 `json:"errors"`     // documents without a level, by class

	Levels  []LevelLoad   `json:"levels"`  // from level 1
	Busiest []Busy        `json:"busiest"` // the customers with the most documents first
	Policy  control.Rules `json:"policy"`  // that the whole fleet should follow
}

// LevelLoad is what happened at a level.
type LevelLoad struct {
	Level   priority.Level `json:"level"`
	ByCount int64          `json:"by_count"` // documents that got the level by count
	ByLoad  int64          `json:"by_load"`  // documents that got the level by load

	// Done is how many documents of the level were done, and MedianMS and P95MS how long
	// they took from Submit to Done; 0: no document was done.
	Done     int64 `json:"done"`
	MedianMS int64 `json:"median_ms"`
	P95MS    int64 `json:"p95_ms"`

	// OldestMS is the age of the oldest pending document, among the busiest
	// customers whose newest pending document has the level; 0: there is no such
	// document.
	OldestMS int64 `json:"oldest_ms"`
}

// Documents is how many documents were given the level.
func (l LevelLoad) Documents() int64 { return l.ByCount + l.ByLoad }

// Median, P95 and Oldest return the durations.
func (l LevelLoad) Median() time.Duration { return milliseconds(l.MedianMS) }
func (l LevelLoad) P95() time.Duration    { return milliseconds(l.P95MS) }
func (l LevelLoad) Oldest() time.Duration { return milliseconds(l.OldestMS) }

// Busy is a customer with many documents.
type Busy struct {
	Name
	Documents int64          `json:"documents"`  // in the window
	LastLevel priority.Level `json:"last_level"` // of the last document
	*State                   // as it is now; nil: a key is corrupt
}

// ReportRights are the rights to read the workers' reports, as ACL SETUSER takes them.
const ReportRights = "+eval +mget +pttl +time +zrangebyscore"

// Reports returns what the workers report. An error is Redis's, and says which rights
// are missing if it is [Forbidden].
func (i *Inspector) Reports(ctx context.Context) ([]fleet.Report, error) {
	reports, err := fleet.Read(ctx, i.Client, i.prefix())
	if Forbidden(err) {
		err = fmt.Errorf("%w; it needs %s on the keys ~%s:{fleet}:*", err, ReportRights, i.prefix())
	}
	return reports, err
}

// Snapshot adds up what the workers report, and looks up the n customers with the most
// documents. An error comes from [Inspector.Reports] or the store.
func (i *Inspector) Snapshot(ctx context.Context, n int) (*Snapshot, error) {
	reports, err := i.Reports(ctx)
	if err != nil {
		return nil, err
	}
	totals := fleet.Add(reports)
	s := &Snapshot{
		At: time.Now(), WindowMS: totals.Window.Milliseconds(),
		Workers: totals.Reports, Degraded: totals.Degraded, Unreadable: totals.Unreadable,
		Overridden: totals.Overridden, Fallback: totals.Fallback, Errors: totals.Errors,
		Busiest: []Busy{}, Policy: i.Rules(),
	}
	last := i.LastLevel()
	for _, r := range reports {
		last = max(last, r.Levels)
	}
	s.Obedience = obedienceOf(i.workersOf(reports))
	s.Kept = i.Kept(reports)
	s.NotObeying = len(s.Obedience.Others)
	for _, level := range slices.Concat(slices.Collect(maps.Keys(totals.ByCount)), slices.Collect(maps.Keys(totals.ByLoad)), slices.Collect(maps.Keys(totals.Waits))) {
		last = max(last, level)
	}
	s.Levels = make([]LevelLoad, last)
	for at := range s.Levels {
		level := priority.First + priority.Level(at)
		waits := totals.Waits[level]
		s.Levels[at] = LevelLoad{
			Level: level, ByCount: totals.ByCount[level], ByLoad: totals.ByLoad[level],
			Done: waits.Count(), MedianMS: waits.Median().Milliseconds(), P95MS: waits.P95().Milliseconds(),
		}
		s.ByCount += s.Levels[at].ByCount
		s.ByLoad += s.Levels[at].ByLoad
	}
	return s, s.addBusiest(ctx, i, totals.Busiest[:min(n, len(totals.Busiest))])
}

// addBusiest looks the customers up.
func (s *Snapshot) addBusiest(ctx context.Context, i *Inspector, busiest []fleet.Busy) error {
	customers := make([]string, len(busiest))
	for at, b := range busiest {
		customers[at] = b.Customer
	}
	states, err := i.Store.PeekEach(ctx, customers)
	for at, err := range itemerrors.Of(err, len(busiest)) {
		b := busiest[at]
		busy := Busy{Name: NameOf(b.Customer), Documents: b.Documents, LastLevel: b.Level}
		switch {
		case err == nil:
			state := stateOf(states[at])
			busy.State = &state
			s.age(state)
		case !errors.Is(err, priority.ErrCorrupt):
			return i.unreadable(err)
		}
		s.Busiest = append(s.Busiest, busy)
	}
	return nil
}

// age records the age of a customer's oldest pending document.
func (s *Snapshot) age(state State) {
	if level := int(state.Level); state.Pending > 0 && level >= 1 && level <= len(s.Levels) {
		s.Levels[level-1].OldestMS = max(s.Levels[level-1].OldestMS, state.OldestMS)
	}
}

// unreadable is the error of looking customers up.
func (i *Inspector) unreadable(err error) error {
	err = census.Cause(err)
	if Forbidden(err) {
		err = fmt.Errorf("%w; it needs %s on the keys ~%s:*", err, PeekRights, i.prefix())
	}
	return err
}

// Documents is how many documents were given a level.
func (s *Snapshot) Documents() int64 { return s.ByCount + s.ByLoad }

// String says what the workers report, in a sentence without a full stop.
func (s *Snapshot) String() string {
	if s.Workers == 0 {
		said := "no worker has reported in the last 30s: those that use fleet.Join do"
		if s.Unreadable > 0 {
			said += fmt.Sprintf("; %s cannot be read", Plural(int64(s.Unreadable), "report"))
		}
		return said
	}
	said := []string{fmt.Sprintf("%s in the last %s", Plural(s.Documents(), "document"), Span(milliseconds(s.WindowMS).Round(time.Second)))}
	note := func(n int64, format string) {
		if n > 0 {
			said = append(said, fmt.Sprintf(format, Group(n)))
		}
	}
	note(s.Overridden, "%s by overrides")
	note(s.Fallback, "%s by the processes alone")
	var failed int64
	for _, n := range s.Errors {
		failed += n
	}
	note(failed, "%s failed")
	workers := Plural(int64(s.Workers), "worker")
	switch {
	case s.Degraded > 0:
		workers += fmt.Sprintf(", %d degraded", s.Degraded)
	case s.Unreadable > 0:
		workers += fmt.Sprintf(", %s not readable", Plural(int64(s.Unreadable), "report"))
	}
	return workers + ": " + strings.Join(said, ", ")
}
