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

// watch goes through all customers, pass after pass, while somebody looks.
type watch struct {
	fleet   *fleet
	passes  *cell[pass]
	corrupt *cell[[]string] // customers with a corrupt key

	survey *insight.Survey // of the pass that is under way: there is one at a time
	past   past            // and so with this

	mu     sync.Mutex // guards status
	status string
}

// pass is what a pass has found, and what the ones before have.
type pass struct {
	insight.Snapshot
	total     []float64 // documents that are pending or, if nobody is counted by load, a second; the latest last
	levels    map[priority.Level][]float64
	customers map[string][]float64 // each by their rule
}

// counts and loads report whether anybody is counted so; without customers, the one.
func (p pass) counts() bool { return p.ByCount > 0 || p.ByLoad == 0 }
func (p pass) loads() bool  { return p.ByLoad > 0 }

func newWatch(fleet *fleet, options Options) *watch {
	w := &watch{
		fleet:  fleet,
		survey: insight.NewSurvey(insight.SurveyOptions{Pace: options.Pace, Busiest: busiest}),
	}
	w.passes = newCell(fleet.background, options.Interval, w.pass)
	w.corrupt = newCell(fleet.background, corruptEvery, w.findCorrupt)
	return w
}

// passRights are what a pass needs, as ACL SETUSER takes them.
const passRights = "+scan " + insight.PeekRights

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

// findCorrupt goes through all customers until it has found enough with a corrupt key,
// while somebody waits for it.
func (w *watch) findCorrupt(ctx context.Context) ([]string, error) {
	walk, err := w.fleet.own.Walk(ctx, census.Options{Pace: w.fleet.pace, PageKeys: pageKeys}, "")
	if err != nil {
		return nil, err
	}
	var found []string
	for {
		over, err := w.fleet.besides(ctx, func() (bool, error) {
			for until := time.Now().Add(stepTime); len(found) < mostCorrupt; {
				entries, err := walk.Next(ctx, w.fleet.own.Store)
				switch {
				case errors.Is(err, io.EOF):
					return true, nil
				case err != nil:
					return false, err
				}
				for _, entry := range entries {
					if entry.Corrupt != "" && len(found) < mostCorrupt {
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
	loads     bool // it is of pending documents
	total     []float64
	levels    map[priority.Level][]float64
	customers map[string][]float64 // of those who were among the busiest
}

// with adds a pass, and returns it with what there was before. What it returns does
// not change.
func (p *past) with(found insight.Snapshot) pass {
	next := pass{Snapshot: found}
	if next.loads() != p.loads {
		*p = past{loads: next.loads()}
	}
	if found.Since > 0 {
		seconds, total, now := found.Since.Seconds(), 0.0, map[string]float64{}
		levels := make(map[priority.Level][]float64, len(found.Levels))
		for _, level := range found.Levels {
			value := float64(level.Documents) / seconds
			if p.loads {
				value = float64(level.Pending)
			}
			total += value
			levels[level.Level] = appended(p.levels[level.Level], value)
		}
		for _, busy := range found.Busiest {
			now[busy.Exact()] = float64(busy.Documents) / seconds
			if busy.ByLoad() {
				now[busy.Exact()] = float64(busy.Pending)
			}
		}
		customers := make(map[string][]float64, len(now))
		for customer, before := range p.customers {
			if _, ok := now[customer]; !ok && anything(before) {
				customers[customer] = appended(before, 0)
			}
		}
		for customer, value := range now {
			customers[customer] = appended(p.customers[customer], value)
		}
		p.total, p.levels, p.customers = appended(p.total, total), levels, customers
	}
	next.total, next.levels, next.customers = p.total, p.levels, p.customers
	return next
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
