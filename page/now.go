package page

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// nowView shows what happens now.
type nowView struct {
	Age     string // of the reports
	Found   *insight.Snapshot
	Rate    float64
	Errors  []failures
	Failed  int64 // the sum of Errors
	Trouble []trouble
	Levels  []levelRow
	Oldest  time.Duration
	Day     []dayPicture
	Changes []changed // of the day
	Health  healthView
	Rules   string // what decides
}

// failures are the documents for which callers got an error.
type failures struct {
	Says      string
	Documents int64
}

// trouble is something that an operator should look at.
type trouble struct {
	Says, Link, Where string
}

// levelRow is what happened at a level in the last minute.
type levelRow struct {
	insight.LevelLoad
	Share  float64
	Lately []float64 // documents in each minute of the last hour
}

// now shows what happens now.
func (v *visit) now() {
	inspector := v.inspector()
	found := v.cache.snapshot.get(v.reading)
	noteStale(v, found)
	view := nowView{Rules: inspector.Policy.Name}
	if !found.at.IsZero() {
		view.Age = insight.Span(time.Since(found.at).Round(time.Second))
		view.add(found.value)
		today := v.cache.day.get(v.reading)
		noteStale(v, today)
		view.addDay(v, today.value)
	}
	view.Health = v.health()
	v.showLive("now", "Now", view)
}

func (view *nowView) add(found *insight.Snapshot) {
	view.Found = found
	view.Rules = cmp.Or(found.Kept, view.Rules)
	view.Rate = float64(found.Documents()) / max(float64(found.WindowMS)/1000, 1)
	for _, class := range slices.Sorted(maps.Keys(found.Errors)) {
		view.Errors = append(view.Errors, failures{cmp.Or(classes[class], class), found.Errors[class]})
		view.Failed += found.Errors[class]
	}
	for _, level := range found.Levels {
		view.Levels = append(view.Levels, levelRow{LevelLoad: level, Share: float64(level.Documents()) / max(float64(found.Documents()), 1)})
		view.Oldest = max(view.Oldest, level.Oldest())
	}
	add := func(link, where, says string, args ...any) {
		view.Trouble = append(view.Trouble, trouble{fmt.Sprintf(says, args...), link, where})
	}
	if o := found.Obedience; o.Obeying < o.Workers {
		add("workers", "Workers", "%s.", strings.TrimSuffix(o.Who(), "."))
	}
	if n := found.Degraded; n > 0 {
		add("workers", "Workers", "%d of %s cannot reach Redis: a fallback decides there.", n, insight.Plural(int64(found.Workers), "worker"))
	}
	if n := found.Errors["corrupt_count"]; n > 0 {
		add("customers?corrupt=", "Find the customers", "%s met a corrupt key. A reset of the customer removes it.", insight.Plural(n, "document"))
	}
}

// First returns what happened at level 1.
func (view nowView) First() levelRow { return view.Levels[0] }

// classes are the errors of reports in an operator's words.
var classes = map[string]string{
	"invalid":         "calls were wrong",
	"not_counted":     "could not be counted",
	"outcome_unknown": "may have been counted",
	"corrupt_count":   "met a corrupt key",
	"error":           "failed otherwise",
}

// addDay adds the pictures of the last day.
func (view *nowView) addDay(v *visit, today day) {
	end := time.Now()
	var marks []mark
	if changes := v.cache.changes.get(v.reading); !changes.at.IsZero() {
		for _, change := range changes.value {
			if change.At.After(end.Add(-24*time.Hour)) && len(marks) < mostMarks {
				done := changed{change, linkOf(change), false}
				marks = append(marks, mark{change.At, done.Brief() + ", by " + insight.Shown(change.By)})
				view.Changes = append(view.Changes, done)
			}
		}
	}
	for i := range view.Levels {
		level := view.Levels[i].Level
		view.Levels[i].Lately = today.over(end, time.Hour, sparkPoints, func(s sample) (float64, bool) { return float64(s.Documents[level]), true })
	}
	add := func(title string, write func(float64) string, of func(sample) (float64, bool)) {
		var known []float64
		for _, s := range today {
			if value, ok := of(s); ok && s.at.After(end.Add(-24*time.Hour)) {
				known = append(known, value)
			}
		}
		if len(known) == 0 {
			return
		}
		says := fmt.Sprintf("in the last day from %s to %s", write(slices.Min(known)), write(slices.Max(known)))
		if now, ok := of(today[len(today)-1]); ok {
			says = "now " + write(now) + ", " + says
		}
		view.Day = append(view.Day, dayPicture{title, says, today.over(end, 24*time.Hour, dayPoints, of), marks, end})
	}
	add("Documents a minute", func(n float64) string { return insight.Group(int64(n)) }, func(s sample) (float64, bool) { return float64(s.documents()), true })
	add("95 of 100 documents of level 1 waited at most", func(ms float64) string { return about(time.Duration(ms) * time.Millisecond) }, func(s sample) (float64, bool) {
		waits, ok := s.Waits[priority.First]
		return float64(waits[1]), ok
	})
}

const mostMarks = 100

// healthView is whether Redis does what the module needs.
type healthView struct {
	Failed string // why the health is unknown; empty: it is known
	Status insight.Status
	Found  *insight.Health // the last known health; nil: none
	Ago    string
}

// health returns the last known health. It is bad as soon as Redis cannot be asked,
// whatever was known before.
func (v *visit) health() healthView {
	found := v.cache.health.getSoon()
	view := healthView{Found: found.value, Ago: insight.Span(time.Since(found.at).Round(time.Second))}
	if found.value != nil && time.Since(found.at) < 2*healthInterval {
		view.Status = worst(found.value)
	}
	switch {
	case slices.ContainsFunc(v.stale, func(s staleness) bool { return s.away }):
		view.Failed = "Redis does not answer: see above."
	case found.err != nil && !errors.Is(found.err, errClosed):
		view.Failed = v.cache.text(found.err)
	}
	if view.Failed != "" {
		view.Status = insight.StatusFailed
	}
	return view
}

// worst returns the worst status of all checks.
func worst(health *insight.Health) insight.Status {
	status := insight.StatusOK
	for _, check := range health.Checks {
		if check.Status == insight.StatusFailed || status == insight.StatusOK {
			status = check.Status
		}
	}
	return status
}
