package insight

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
)

// Worker is a process of the fleet, from its report.
type Worker struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Language string    `json:"language"`
	Version  string    `json:"version"` // the library's
	Host     string    `json:"host"`
	PID      int       `json:"pid"`
	Since    time.Time `json:"since"`     // when it joined, by this process's clock
	LastSeen time.Time `json:"last_seen"` // when it reported

	Here      bool              `json:"here"`       // whether it has reported within half a minute
	Levels    priority.Level    `json:"levels"`     // how many its queue has
	OddLevels bool              `json:"odd_levels"` // whether most others have another number
	Degraded  bool              `json:"degraded"`   // whether it cannot reach Redis, and a fallback answers
	Overrides bool              `json:"overrides"`  // whether it applies overrides
	Following control.Following `json:"following"`  // which policies it follows
	Documents int64             `json:"documents"`  // how many got a level in the last minute

	// Digest is of what it decides by, OddDigest whether most others that follow and
	// decide have another one. One that only ends documents decides nothing.
	Digest    string `json:"digest,omitempty"`
	OddDigest bool   `json:"odd_digest,omitempty"`

	// Submitted and Ended are how many documents it submitted and ended in the last hour.
	Submitted int64 `json:"submitted_hour"`
	Ended     int64 `json:"ended_hour"`

	// Replaced reports whether it is gone, and another one has started since.
	Replaced bool `json:"replaced,omitempty"`

	// Follows reports whether it follows all that operators have set, and Why says why
	// not.
	Follows bool   `json:"follows"`
	Why     string `json:"why,omitempty"`

	unread bool          // whether its report cannot be read
	up     time.Duration // how long it had been here when it reported
	counts bool          // whether it knows Submitted and Ended, and its clock
	ahead  time.Duration // its clock, of Redis's
	splits bool          // whether it splits names into accounts and users
	unlike bool          // whether most others do otherwise
}

// silentAfter is how old a report may be before its process is said to hang.
const silentAfter = 8 * time.Second

// workers returns the fleet's processes, those here first, by their names.
func (s *Snapshot) workers() []Worker {
	workers := make([]Worker, len(s.Reports))
	var starts []time.Time // when the workers that are here joined
	for i, r := range s.Reports {
		workers[i] = s.workerOf(r)
		if r.Here() {
			starts = append(starts, workers[i].Since)
		}
	}
	slices.SortFunc(starts, time.Time.Compare)
	slices.SortFunc(workers, func(a, b Worker) int { return a.LastSeen.Compare(b.LastSeen) })
	for i := range workers {
		w := &workers[i]
		if w.Here {
			continue
		}
		// The first that has started since replaces it, and no other.
		for len(starts) > 0 && !starts[0].After(w.LastSeen) {
			starts = starts[1:]
		}
		if len(starts) > 0 {
			starts = starts[1:]
			w.Replaced, w.Why = true, w.Why+", and another one has started since"
		}
	}
	for w := range unlike(workers, func(w Worker) (priority.Level, bool) { return w.Levels, !w.unread }) {
		w.OddLevels = true
	}
	for w := range unlike(workers, func(w Worker) (string, bool) {
		return w.Digest, w.Follows && w.Digest != "" && w.Documents+w.Submitted > 0
	}) {
		w.OddDigest, w.Why = true, "it decides by other policies than others do, or by another version of the library"
	}
	for w := range unlike(workers, func(w Worker) (bool, bool) { return w.splits, !w.unread }) {
		w.unlike, w.Why = true, cmp.Or(w.Why, "it splits names into accounts and users, or does not, unlike others")
	}
	slices.SortFunc(workers, func(a, b Worker) int {
		switch {
		case a.Here && !b.Here:
			return -1
		case b.Here && !a.Here:
			return 1
		}
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID))
	})
	return workers
}

// unlike goes through the workers here with another value than most; if none is that of most,
// through all. Those without one are not compared.
func unlike[T comparable](workers []Worker, of func(Worker) (value T, ok bool)) iter.Seq[*Worker] {
	counts, most, largest := make(map[T]int), 0, 0
	for _, w := range workers {
		if value, ok := of(w); ok && w.Here {
			counts[value]++
			most = max(most, counts[value])
		}
	}
	for _, n := range counts {
		if n == most {
			largest++
		}
	}
	return func(yield func(*Worker) bool) {
		for i, w := range workers {
			if value, ok := of(w); ok && w.Here && (counts[value] < most || largest > 1) && !yield(&workers[i]) {
				return
			}
		}
	}
}

func (s *Snapshot) workerOf(r fleet.Report) Worker {
	w := Worker{
		ID: r.ID, Name: cmp.Or(r.Name, r.ID), Language: r.Language, Version: r.Version, Host: r.Host, PID: r.PID,
		LastSeen: s.At.Add(-r.Age).UTC().Truncate(time.Second), Here: r.Here(),
		Levels: r.Levels, Degraded: r.Degraded, Overrides: r.Overrides, Following: r.Following, Documents: r.Documents(),
		Digest: r.Digest, Submitted: r.Submitted, Ended: r.Ended, up: r.Up, unread: r.Err != nil, counts: !r.Written.IsZero(), splits: r.Accounts,
	}
	if w.counts {
		w.ahead = r.Written.Sub(s.Now.Add(-r.Age))
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
	switch {
	case r.Err != nil:
		return "its report cannot be read"
	case !r.Here() && s.Full():
		return "no report for " + ago(r.Age) + ", as Redis is full"
	case !r.Here():
		return "gone: last seen " + ago(r.Age) + " ago"
	case r.Age > silentAfter:
		return "no report for " + ago(r.Age)
	case r.Following.Code != "":
		return reason(r.Following)
	case s.lags(r) && r.Following.Version == 0:
		return fmt.Sprintf("still follows its own options, not version %d", s.Applied.Version)
	case s.lags(r):
		return fmt.Sprintf("still follows version %d, not version %d", r.Following.Version, s.Applied.Version)
	case !r.Overrides:
		return "overrides are not read"
	case r.Degraded:
		return "Redis was not reached at the latest report"
	}
	return ""
}

// lags reports whether a process has not read the newest policies yet.
func (s *Snapshot) lags(r fleet.Report) bool {
	return r.Err == nil && r.Age <= silentAfter && r.Following.Code == "" && s.PoliciesErr == nil && r.Following.Version < s.Applied.Version
}

// reason says in an operator's words why a process does not follow the newest policies.
func reason(f control.Following) string {
	words := map[control.Code]string{
		control.Lost:        "Redis lost policies",
		control.Corrupt:     "the policies' key is corrupt",
		control.Newer:       "a later version of the module wrote the policies",
		control.Invalid:     "it cannot use the policies",
		control.Refused:     "Redis refuses to tell it the policies",
		control.Unreachable: "Redis does not tell it the policies",
	}[f.Code]
	words = cmp.Or(words, string(f.Code)) // which a later version of the module has
	if f.Detail != "" {
		words += ": " + f.Detail
	}
	return words
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
// not: it cannot use the policies". A worker that is gone does not count.
func (s *Snapshot) Following() string {
	if s.ReportsErr != nil {
		return "who follows is unknown: " + OneLine(s.Hidden(s.ReportsErr))
	}
	var others, odd []string
	var why string
	here := 0
	for _, w := range s.Workers {
		switch {
		case !w.Here:
			continue
		case !w.Follows:
			others, why = append(others, w.Called()), cmp.Or(why, w.Why)
		case w.OddDigest:
			odd = append(odd, w.Called())
		}
		here++
	}
	says := fmt.Sprintf("%s of %s workers follow", Group(int64(here-len(others))), Group(int64(here)))
	switch {
	case here == 0:
		return "no worker reports, so who follows is unknown"
	case here == 1 && others == nil:
		says = "the only worker follows"
	case here == 2 && others == nil:
		says = "both workers follow"
	case others == nil:
		says = fmt.Sprintf("all %s workers follow", Group(int64(here)))
	case len(others) == 1:
		says += fmt.Sprintf("; %s does not: %s", others[0], why)
	default:
		says += fmt.Sprintf("; %s do not: %s", Named(others), why)
	}
	if odd != nil {
		says += "; by other policies than others: " + Named(odd)
	}
	return says
}

// mostNamed is how many names a sentence has.
const mostNamed = 3

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

// Await looks until all workers have read what operators have set, or for three seconds:
// workers report at once when they follow other policies.
func (i *Inspector) Await(ctx context.Context) (*Snapshot, error) {
	const within, between = 3 * time.Second, 200 * time.Millisecond
	for until := time.Now().Add(within); ; {
		s, err := i.Look(ctx)
		if err != nil || time.Now().After(until) {
			return s, err
		}
		if slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Follows }) && !slices.ContainsFunc(s.Reports, s.lags) {
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-time.After(between):
		}
	}
}
