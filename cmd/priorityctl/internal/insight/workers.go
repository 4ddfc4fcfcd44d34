package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

// Worker is a process of the fleet, from its report.
type Worker struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Language string    `json:"language"`
	Version  string    `json:"version"` // of the library
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`     // when it joined, by this process's clock
	LastSeen time.Time `json:"last_seen"` // when it reported

	Here      bool           `json:"here"`       // it has reported within half a minute
	Levels    priority.Level `json:"levels"`     // of its queue
	OddLevels bool           `json:"odd_levels"` // most others have another number
	Degraded  bool           `json:"degraded"`   // it cannot reach Redis, and a fallback answers
	Overrides bool           `json:"overrides"`  // it applies overrides
	Rules     int64          `json:"rules"`      // the version of the rules that it follows; 0: none were set
	Own       bool           `json:"own"`        // it goes by its own options
	Documents int64          `json:"documents"`  // that got a level in the last minute

	// Replaced reports whether it is gone, and another one has started since.
	Replaced bool `json:"replaced,omitempty"`

	// Follows reports whether it follows all that operators have set, and Why says why
	// not.
	Follows bool   `json:"follows"`
	Why     string `json:"why,omitempty"`
}

// silentAfter is how old a report may be before its process is said to hang.
const silentAfter = 8 * time.Second

// workers returns the fleet's processes, those here first, by their names.
func (s *Snapshot) workers() []Worker {
	workers, sizes := make([]Worker, len(s.Reports)), map[priority.Level]int{}
	for at, r := range s.Reports {
		workers[at] = s.workerOf(r)
		if r.Here() {
			sizes[r.Levels]++
		}
	}
	for at := range workers {
		for _, n := range sizes {
			workers[at].OddLevels = workers[at].OddLevels || n > sizes[workers[at].Levels] && workers[at].Here
		}
	}
	started := make([]bool, len(workers))
	for at := range workers {
		gone := &workers[at]
		by := slices.IndexFunc(workers, func(w Worker) bool { return w.Here && w.Since.After(gone.LastSeen) })
		for ; !gone.Here && by >= 0 && by < len(workers); by++ {
			if w := workers[by]; w.Here && w.Since.After(gone.LastSeen) && !started[by] {
				started[by], gone.Replaced = true, true
				gone.Why += ", and another one has started since"
				break
			}
		}
	}
	slices.SortFunc(workers, func(a, b Worker) int {
		if a.Here != b.Here {
			return cmp.Compare(one(b.Here), one(a.Here))
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return workers
}

func one(is bool) int {
	if is {
		return 1
	}
	return 0
}

func (s *Snapshot) workerOf(r fleet.Report) Worker {
	w := Worker{
		ID: r.ID, Name: cmp.Or(r.Name, r.ID), Language: r.Language, Version: r.Version, Host: r.Host, PID: r.PID,
		LastSeen: s.At.Add(-r.Age).UTC().Truncate(time.Second), Here: r.Here(),
		Levels: r.Levels, Degraded: r.Degraded, Overrides: r.Overrides, Rules: r.Rules.Version, Own: r.Rules.Own, Documents: r.Documents(),
	}
	if r.Err == nil {
		w.Since = s.At.Add(-r.Age - r.Up).UTC().Truncate(time.Second)
	}
	w.Why = s.whyNot(r)
	if w.Follows = w.Why == ""; !typable(w.Why) {
		w.Why = Quoted(w.Why)
	}
	return w
}

// whyNot says why a process does not follow operators; empty: it does.
func (s *Snapshot) whyNot(r fleet.Report) string {
	switch last := s.Rules.Policy.Last(); {
	case r.Err != nil:
		return "its report cannot be read"
	case !r.Here() && s.Full():
		return "no report for " + ago(r.Age) + ", as Redis is full"
	case !r.Here():
		return "gone: last seen " + ago(r.Age) + " ago"
	case r.Age > silentAfter:
		return "no report for " + ago(r.Age)
	case s.Applied.Rules != nil && last > r.Levels:
		return fmt.Sprintf("its queue has %s, the rules %d", Plural(int64(r.Levels), "level"), last)
	case r.Rules.Error != "":
		return r.Rules.Error
	case s.Unread == nil && r.Rules.Version < s.Applied.Version:
		return fmt.Sprintf(stillFollows+"%s, not version %d", followed(r), s.Applied.Version)
	case !r.Overrides:
		return "overrides are not read"
	case r.Degraded:
		return "Redis was not reached at the last report"
	}
	return ""
}

func followed(r fleet.Report) string {
	if r.Rules.Version == 0 {
		return "its own options"
	}
	return fmt.Sprintf("version %d", r.Rules.Version)
}

func ago(d time.Duration) string { return Span(d.Round(time.Second)) }

// Called names the process for people: "w4 on b".
func (w Worker) Called() string {
	if w.Host == "" || strings.Contains(w.Name, w.Host) {
		return Shown(w.Name)
	}
	return Shown(w.Name) + " on " + Shown(w.Host)
}

// Following says who of the workers follows operators: "3 of 4 workers follow; w4 on b does
// not: its queue has 3 levels, the rules 9". A worker that is gone does not count.
func (s *Snapshot) Following() string {
	if s.Unreported != nil {
		return "who follows is unknown: " + OneLine(s.Hidden(s.Unreported))
	}
	var others []Worker
	here := 0
	for _, w := range s.Workers {
		if w.Here {
			here++
			if !w.Follows {
				others = append(others, w)
			}
		}
	}
	if here == 0 {
		return "no worker reports, so who follows is unknown"
	}
	said := fmt.Sprintf("%s of %s workers follow", Group(int64(here-len(others))), Group(int64(here)))
	switch {
	case here == 1 && others == nil:
		said = "the only worker follows"
	case here == 1:
		said = "the only worker does not follow"
	case here == 2 && others == nil:
		said = "both workers follow"
	case others == nil:
		said = fmt.Sprintf("all %s workers follow", Group(int64(here)))
	}
	return strings.Join(append([]string{said}, reasons(others)...), "; ")
}

const (
	mostReasons = 3 // in a sentence
	mostNamed   = 3 // for one reason
)

// reasons says why workers do not follow, each reason once: if Redis lost its data, all
// have the same reason.
func reasons(others []Worker) (said []string) {
	who := map[string][]string{}
	for _, w := range others {
		who[w.Why] = append(who[w.Why], w.Called())
	}
	left := len(others)
	for _, w := range others {
		names := who[w.Why]
		switch {
		case names == nil: // said already
			continue
		case len(said) == mostReasons:
			return append(said, fmt.Sprintf("%d more do not: see priorityctl workers", left))
		}
		do := "does"
		if len(names) > 1 {
			do = "do"
		}
		said = append(said, fmt.Sprintf("%s %s not: %s", Named(names), do, w.Why))
		left -= len(names)
		who[w.Why] = nil
	}
	return said
}

// Named is "w1, w2, w3 and 5 more".
func Named(names []string) string {
	if len(names) > mostNamed+1 {
		names = append(names[:mostNamed:mostNamed], Group(int64(len(names)-mostNamed))+" more")
	}
	last := len(names) - 1
	if last <= 0 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}

// Await looks until all workers follow what operators have set, or for three seconds:
// workers report at once when they follow other rules.
func (i *Inspector) Await(ctx context.Context) (*Snapshot, error) {
	const within, between = 3 * time.Second, 200 * time.Millisecond
	for until := time.Now().Add(within); ; {
		s, err := i.Look(ctx)
		if err != nil || time.Now().After(until) {
			return s, err
		}
		if slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Follows }) &&
			!slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Here && strings.HasPrefix(w.Why, stillFollows) }) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(between):
		}
	}
}

const stillFollows = "still follows "
