package page

import (
	"errors"
	"math"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// nowView is what happens now.
type nowView struct {
	Age      string // of the pass
	Status   string
	Counts   bool // some are counted by count
	Loads    bool // some are by load
	Rates    bool // documents are a second, else since the resets
	Rate     float64
	Pending  int64
	Total    []float64
	Of       string // what Total is
	Levels   []levelRow
	Table    table
	Corrupt  []string // customers
	Corrupts int64
	Health   *insight.Health
	HealthAt time.Time
	Worst    insight.Status

	Overrides int64
	Rules     string // what decides
}

// levelRow is what happens at a level.
type levelRow struct {
	Level     priority.Level
	Customers int64
	Documents float64
	Pending   int64
	Share     float64 // of what is pending or, if nobody is counted by load, of the documents
	History   []float64
}

// now shows what happens now.
func (v *visit) now() {
	ctx := v.reading
	health := v.fleet.health.getSoon()
	found := v.watch.passes.get(ctx)
	if found.late && (found.err == nil || errors.Is(found.err, errUnwatched)) && v.watch.progress() != "" {
		found.late, found.err = false, nil // it goes on: a pass may take long
	}
	if errors.Is(found.err, errUnwatched) {
		found.err = nil
	}
	noteStale(v, found)
	if found.at.IsZero() && found.err != nil {
		v.failed(found.err)
		return
	}
	inspector := v.inspector()
	view := nowView{Status: v.watch.progress(), Corrupts: found.value.Corrupt, Rules: inspector.Policy.Name}
	if !found.at.IsZero() {
		view.Age = insight.Span(time.Since(found.value.At).Round(time.Second))
		view.addPass(found.value)
	}
	view.Table = tableOf(found.value, v.r.URL.Query(), inspector.Store.Last())
	if view.Corrupts > 0 {
		corrupt := v.watch.corrupt.get(ctx)
		if errors.Is(corrupt.err, errUnwatched) {
			corrupt.err = nil
		}
		corrupt.late = corrupt.late && corrupt.err != nil // it goes on: that may take long
		noteStale(v, corrupt)
		view.Corrupt = corrupt.value
	}
	if health.value != nil {
		view.Health, view.HealthAt, view.Worst = health.value, health.at, worst(health.value)
	}
	noteStale(v, looked[*insight.Health]{err: health.err, at: health.at})
	if document := inspector.Document; document != nil {
		view.Overrides = int64(len(inspector.Overrides()))
	}
	v.showLive("now", "Now", view)
}

func (view *nowView) addPass(found pass) {
	view.Counts, view.Loads, view.Rates, view.Total = found.counts(), found.loads(), found.Since > 0, found.total
	view.Of = "Documents a second"
	if view.Loads {
		view.Of = "Pending documents"
	}
	unit := 1.0
	if view.Rates {
		unit = found.Since.Seconds()
	}
	for _, level := range found.Levels {
		row := levelRow{level.Level, level.Customers, float64(level.Documents) / unit, level.Pending, 0, found.levels[level.Level]}
		view.Rate += row.Documents
		view.Pending += row.Pending
		view.Levels = append(view.Levels, row)
	}
	for i := range view.Levels {
		row := &view.Levels[i]
		row.Share = row.Documents / max(view.Rate, math.SmallestNonzeroFloat64)
		if view.Loads {
			row.Share = float64(row.Pending) / max(float64(view.Pending), 1)
		}
	}
}

// worst is the worst of all checks.
func worst(health *insight.Health) insight.Status {
	status := insight.StatusOK
	for _, check := range health.Checks {
		if check.Status == insight.StatusFailed || status == insight.StatusOK {
			status = check.Status
		}
	}
	return status
}
