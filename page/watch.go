package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/insight/census"
)

const (
	busiest      = 200 // how many customers are named
	mostCorrupt  = 100 // how many corrupt keys are
	points       = 60  // passes that the pictures show
	stepTime     = 500 * time.Millisecond
	unwatched    = 30 * time.Second // a pass that nobody waits for is left for later
	corruptEvery = 30 * time.Second
)

// watch goes through all counts, pass after pass, while somebody looks.
type watch struct {
	fleet   *fleet
	passes  *cell[pass]
	corrupt *cell[[]string] // customers whose count is none

	survey *insight.Survey // of the pass that is under way: there is one at a time
	past   past            // and so with this

	mu     sync.Mutex // guards status
	status string
}

// pass is what a pass has found, and what the ones before have.
type pass struct {
	insight.Snapshot
	total     []float64 // documents a second, the latest last
	levels    map[priority.Level][]float64
	customers map[string][]float64
}

func newWatch(fleet *fleet, options Options) *watch {
	w := &watch{
		fleet:  fleet,
		survey: insight.NewSurvey(insight.SurveyOptions{Pace: options.Pace, Busiest: busiest}),
		past:   past{levels: map[priority.Level][]float64{}, customers: map[string][]float64{}},
	}
	w.passes = newCell(fleet.background, options.Interval, w.pass)
	w.corrupt = newCell(fleet.background, corruptEvery, w.findCorrupt)
	return w
}

// passRights are what a pass needs, as ACL SETUSER takes them.
const passRights = "+scan +get +pttl"

var errUnwatched = errors.New("nobody looked for a while")

// pass makes one, or goes on with one that nobody waited for.
func (w *watch) pass(ctx context.Context) (pass, error) {
	for {
		inspector, _ := w.fleet.now(ctx) // the page says that it is not known
		w.fleet.alone.Lock()
		done, err := w.survey.Advance(ctx, inspector, time.Now().Add(stepTime))
		w.fleet.alone.Unlock()
		w.mu.Lock()
		w.status = w.survey.Status()
		w.mu.Unlock()
		switch {
		case insight.Forbidden(err):
			return pass{}, fmt.Errorf("%w; it needs %s on the keys ~%s:*", err, passRights, w.fleet.own.Prefix)
		case err != nil:
			return pass{}, err
		case done:
			return w.past.with(w.survey.Last()), nil
		case w.passes.idle() > unwatched:
			return pass{}, errUnwatched
		}
	}
}

// progress says how far the pass is.
func (w *watch) progress() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// findCorrupt goes through all counts until it has found enough that are none, while
// somebody waits for it.
func (w *watch) findCorrupt(ctx context.Context) ([]string, error) {
	walk, err := w.fleet.own.Walk(ctx, census.Options{Pace: w.fleet.pace, PageKeys: pageKeys}, "")
	if err != nil {
		return nil, err
	}
	var found []string
	for {
		over, err := w.fleet.besides(ctx, func() (bool, error) {
			for until := time.Now().Add(stepTime); len(found) < mostCorrupt; {
				entries, err := walk.Next(ctx)
				switch {
				case errors.Is(err, io.EOF):
					return true, nil
				case err != nil:
					return false, err
				}
				for _, entry := range entries {
					if entry.Corrupt && len(found) < mostCorrupt {
						found = append(found, entry.Customer)
					}
				}
				if !time.Now().Before(until) {
					return false, nil
				}
			}
			return true, nil
		})
		switch {
		case err != nil:
			return nil, err
		case over:
			return found, nil
		case w.corrupt.idle() > unwatched:
			return nil, errUnwatched
		}
	}
}

// past is what the last passes have found, for the pictures.
type past struct {
	total     []float64
	levels    map[priority.Level][]float64
	customers map[string][]float64 // of those who were among the busiest
}

// with adds a pass, and returns it with what there was before. What it returns does
// not change.
func (p *past) with(found insight.Snapshot) pass {
	if found.Since > 0 {
		seconds, total, now := found.Since.Seconds(), 0.0, map[string]float64{}
		levels := make(map[priority.Level][]float64, len(found.Levels))
		for _, level := range found.Levels {
			rate := float64(level.Documents) / seconds
			total += rate
			levels[level.Level] = appended(p.levels[level.Level], rate)
		}
		for _, busy := range found.Busiest {
			now[busy.Exact()] = float64(busy.Documents) / seconds
		}
		customers := make(map[string][]float64, len(now))
		for customer, before := range p.customers {
			if _, ok := now[customer]; !ok && anything(before) {
				customers[customer] = appended(before, 0)
			}
		}
		for customer, rate := range now {
			customers[customer] = appended(p.customers[customer], rate)
		}
		p.total, p.levels, p.customers = appended(p.total, total), levels, customers
	}
	return pass{found, p.total, p.levels, p.customers}
}

// appended returns the last values with one more. It leaves the others as they are.
func appended(before []float64, value float64) []float64 {
	before = before[max(0, len(before)-points+1):]
	return append(append(make([]float64, 0, len(before)+1), before...), value)
}

func anything(values []float64) bool {
	for _, value := range values {
		if value > 0 {
			return true
		}
	}
	return false
}
