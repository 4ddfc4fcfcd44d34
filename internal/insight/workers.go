package insight

import (
	"cmp"
	"context"
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
	Since    time.Time `json:"since"`  // by this process's clock
	AgeMS    int64     `json:"age_ms"` // of the report

	Levels    priority.Level `json:"levels"`    // of its queue
	Degraded  bool           `json:"degraded"`  // it cannot reach Redis, and a fallback answers
	Overrides bool           `json:"overrides"` // it applies overrides
	Rules     int64          `json:"rules"`     // the version of the rules that it follows; 0: its own options
	Documents int64          `json:"documents"` // that got a level in the last minute

	// Obeys reports whether it follows all that operators have set, and Why says why
	// not.
	Obeys bool   `json:"obeys"`
	Why   string `json:"why,omitempty"`
}

// Workers returns the fleet's processes by their names. It compares them with what the
// Inspector follows: see [Inspector.Follow]. An error comes from [Inspector.Reports].
func (i *Inspector) Workers(ctx context.Context) ([]Worker, error) {
	reports, err := i.Reports(ctx)
	if err != nil {
		return nil, err
	}
	return i.workersOf(reports), nil
}

func (i *Inspector) workersOf(reports []fleet.Report) []Worker {
	workers := make([]Worker, len(reports))
	for at, r := range reports {
		workers[at] = i.workerOf(r)
	}
	slices.SortFunc(workers, func(a, b Worker) int { return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.ID, b.ID)) })
	return workers
}

func (i *Inspector) workerOf(r fleet.Report) Worker {
	w := Worker{
		ID: r.ID, Name: cmp.Or(r.Name, r.ID), Language: r.Language, Version: r.Version, Host: r.Host, PID: r.PID, AgeMS: r.Age.Milliseconds(),
		Levels: r.Levels, Degraded: r.Degraded, Overrides: r.Overrides, Rules: r.Rules.Version, Documents: r.Documents(),
	}
	if r.Err == nil {
		w.Since = time.Now().Add(-r.Age - r.Up).UTC().Truncate(time.Second)
	}
	var policy *priority.Policy
	if i.RulesVersion() > 0 {
		policy = &i.Settings.Rules.Value.Policy
	}
	alone := []fleet.Report{r}
	rules, _ := ObeyRules(alone, i.RulesVersion(), policy)
	for _, other := range append(rules.Others, ObeyOverride(alone, priority.Override{}).Others...) {
		if w.Why != other.Why {
			w.Why = strings.TrimPrefix(w.Why+"; "+other.Why, "; ")
		}
	}
	if w.Obeys = w.Why == ""; !typable(w.Why) {
		w.Why = Quoted(w.Why)
	}
	return w
}

// obedienceOf says who of the workers obeys.
func obedienceOf(workers []Worker) Obedience {
	o := Obedience{Workers: len(workers), Others: []Unfollower{}}
	for _, w := range workers {
		if w.Obeys {
			o.Obeying++
		} else {
			o.Others = append(o.Others, Unfollower{w.ID, w.Name, w.Language, w.Host, w.Why})
		}
	}
	return o
}

// Silent reports whether the process has not reported for so long that it must hang or be
// gone.
func (w Worker) Silent() bool { return milliseconds(w.AgeMS) > silentAfter }

// Called names the process for people: "w4 on b".
func (w Worker) Called() string {
	if w.Host == "" || strings.Contains(w.Name, w.Host) {
		return Shown(w.Name)
	}
	return Shown(w.Name) + " on " + Shown(w.Host)
}
