package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

const (
	mostBusiest   = 25
	healthTrips   = 5
	healthChecked = 30 * time.Second // and not again so soon
	dayRead       = 30 * time.Second
)

// nowView shows what happens now.
type nowView struct {
	Found   *insight.Snapshot // nil: it was never read
	Age     string            // of Found
	Rules   string            // what decides
	Rate    float64
	Failed  int64 // documents for which callers got an error
	Errors  []string
	Oldest  time.Duration
	Trouble []trouble
	Levels  []levelRow
	Day     []dayPicture
	Health  *insight.Health
	Status  insight.Status
}

// trouble is something that an operator should look at.
type trouble struct{ Says, Link, Where string }

// levelRow is what happened at a level in the last minute.
type levelRow struct {
	insight.LevelLoad
	Share    float64
	LastHour []float64 // documents in each minute
}

func (v *visit) now() (string, any) {
	inspector := v.inspector()
	view := nowView{Rules: inspector.Policy.Name}
	found, ok := read(v, "snapshot", v.interval, func(ctx context.Context) (*insight.Snapshot, error) {
		return inspector.Snapshot(ctx, mostBusiest)
	})
	if ok {
		view.add(found)
		today, _ := read(v, "day", dayRead, v.readDay)
		view.addDay(today, v.changes())
	}
	view.Health, _ = read(v, "health", healthChecked, func(ctx context.Context) (*insight.Health, error) {
		return v.own.Health(ctx, healthTrips)
	})
	view.Status = insight.StatusFailed
	if view.Health != nil && !v.isAway() {
		view.Status = worst(view.Health)
	}
	v.Refresh = v.interval
	return "Now", view
}

func (view *nowView) add(found *insight.Snapshot) {
	view.Found = found
	view.Age = insight.Span(time.Since(found.At).Round(time.Second))
	view.Rules = cmp.Or(found.Kept, view.Rules)
	view.Rate = float64(found.Documents()) / max(float64(found.WindowMS)/1000, 1)
	for _, class := range slices.Sorted(maps.Keys(found.Errors)) {
		view.Errors = append(view.Errors, insight.Group(found.Errors[class])+" "+cmp.Or(classes[class], class))
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
	if n := found.Errors["corrupt"]; n > 0 {
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
	"corrupt":         "met a corrupt key",
	"error":           "failed otherwise",
}

// addDay adds the pictures of the last day.
func (view *nowView) addDay(today []sample, changes []insight.Logged) {
	end := time.Now()
	for i := range view.Levels {
		level := view.Levels[i].Level
		view.Levels[i].LastHour = over(today, end, time.Hour, 60, func(s sample) (float64, bool) { return float64(s.Documents[level]), true })
	}
	add := func(title string, write func(float64) string, of func(sample) (float64, bool)) {
		values := over(today, end, 24*time.Hour, dayPoints, of)
		if picture := (dayPicture{title, write, values, changes, end}); picture.most() > 0 {
			view.Day = append(view.Day, picture)
		}
	}
	add("Documents a minute", func(n float64) string { return insight.Group(int64(n)) }, func(s sample) (float64, bool) {
		var all int64
		for _, n := range s.Documents {
			all += n
		}
		return float64(all), true
	})
	add("95 of 100 documents of level 1 waited at most", func(ms float64) string { return about(time.Duration(ms) * time.Millisecond) }, func(s sample) (float64, bool) {
		waits, ok := s.Waits[priority.First]
		return float64(waits[1]), ok
	})
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
