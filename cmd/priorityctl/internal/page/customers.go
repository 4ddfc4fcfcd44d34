package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/insight/census"
)

const (
	pace      = 10_000                 // keys a second that a search looks at
	stepTime  = 500 * time.Millisecond // of a search, for each look at its page
	forgotten = 30 * time.Second       // a search that was not looked at for so long begins again
	mostFound = 1000                   // customers of a search
	mostMet   = 200_000                // that are remembered, as SCAN may meet a key twice
)

// sought says which customers to look for.
type sought struct {
	Text    string
	Level   priority.Level // 0: any
	Corrupt bool           // only those with a corrupt key
}

func (s sought) matches(l insight.Listed) bool {
	if s.Corrupt && l.Corrupt == "" || s.Level > 0 && (l.Corrupt != "" || l.NextLevel != s.Level) {
		return false
	}
	return has(s.Text, l.Exact(), insight.Shown(l.Exact()))
}

// has reports whether one of some texts has a part, in upper or lower case.
func has(part string, texts ...string) bool {
	part = strings.ToLower(part)
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(strings.ToLower(text), part) })
}

// search is a walk through all customers, which goes on whenever its page is looked at.
type search struct {
	sought
	walk  *census.Walk
	keys  int64 // of the whole Redis; 0: not known
	met   map[string]bool
	all   int64            // how many match
	found []insight.Listed // the customers who matter most
	done  bool
}

// step goes on for a while, or to the end.
func (s *search) step(ctx context.Context, inspector *insight.Inspector) (err error) {
	if s.walk == nil {
		if s.walk, err = inspector.Walk(ctx, census.Options{Pace: pace}, ""); err != nil {
			return err
		}
		s.keys, _ = s.walk.Keys(ctx) // without the right to DBSIZE there is no progress to show
		s.met = make(map[string]bool)
	}
	for until := time.Now().Add(stepTime); !s.done && time.Now().Before(until); {
		entries, err := s.walk.Next(ctx, inspector.Store)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for _, entry := range entries {
			l, who := inspector.Listed(entry), entry.Customer+"\x00"+entry.Corrupt
			if s.met[who] || !s.matches(l) {
				continue
			}
			if len(s.met) < mostMet {
				s.met[who] = true
			}
			s.all++
			if s.found = append(s.found, l); len(s.found) >= 2*mostFound {
				s.sort()
			}
		}
		s.done = s.walk.Done()
	}
	s.sort()
	return nil
}

// sort puts those who matter most first, and forgets the others if there are too many.
func (s *search) sort() {
	slices.SortFunc(s.found, func(a, b insight.Listed) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), strings.Compare(a.Exact(), b.Exact()))
	})
	s.found = s.found[:min(len(s.found), mostFound)]
}

// rank orders customers: corrupt ones first, then by the level of the next document
// without an override, and within a level by load or by count.
func rank(l insight.Listed) float64 {
	if l.Corrupt != "" {
		return math.Inf(1)
	}
	return float64(l.RuleLevel) + min(math.Log2(1+number(l))/64, 1)
}

func number(l insight.Listed) float64 {
	if l.ByCount() {
		return float64(l.Documents())
	}
	return l.Load
}

// foundView is what a search has found.
type foundView struct {
	sought
	Rows   []insight.Listed
	All    int64
	More   int64 // customers that are not listed
	Levels []priority.Level
	Sorts  []string
	Sort   string

	Known    bool // there is something to show
	Under    bool // the search goes on
	Progress int  // in percent
}

// orders are the columns by which the rows can be sorted; by level, they are already.
var orders = map[string]func(a, b insight.Listed) int{
	"level":    func(a, b insight.Listed) int { return 0 },
	"customer": func(a, b insight.Listed) int { return strings.Compare(a.Exact(), b.Exact()) },
	"number":   descending(number),
	"pending":  descending(func(l insight.Listed) float64 { return float64(l.Pending) }),
	"oldest":   descending(func(l insight.Listed) float64 { return float64(l.OldestMS) }),
}

// descending puts corrupt customers first.
func descending(value func(insight.Listed) float64) func(a, b insight.Listed) int {
	of := func(l insight.Listed) float64 {
		if l.Corrupt != "" {
			return math.Inf(1)
		}
		return value(l)
	}
	return func(a, b insight.Listed) int { return cmp.Compare(of(b), of(a)) }
}

// customers shows who is found by a search through all.
func (v *visit) customers() (string, any) {
	what := sought{Text: v.ask("q"), Corrupt: v.request.URL.Query().Has("corrupt")}
	if level, err := strconv.ParseUint(v.ask("level"), 10, 8); err == nil && !what.Corrupt {
		what.Level = priority.Level(level)
	}
	inspector := v.inspector()
	view := foundView{sought: what, Sort: v.ask("sort"), Sorts: []string{"level", "customer", "number", "pending", "oldest"}}
	for level := priority.First; level <= inspector.LastLevel(); level++ {
		view.Levels = append(view.Levels, level)
	}
	found, ok := v.search(inspector, what)
	view.Known, view.All, view.Under, view.Progress = ok, found.all, ok && !found.done, found.progress
	view.Rows = slices.Clone(found.rows)
	if order, known := orders[view.Sort]; known {
		slices.SortStableFunc(view.Rows, order)
	}
	view.Rows = view.Rows[:min(len(view.Rows), mostRows)]
	view.More = view.All - int64(len(view.Rows))
	if view.Under {
		v.Refresh = stepTime
	}
	return "Customers", view
}

// finding is what a search has found so far.
type finding struct {
	of       *search // goes on under the cache's lock
	all      int64
	rows     []insight.Listed
	done     bool
	progress int // in percent
}

// search goes on with a search, or shows one that is over for a while.
func (v *visit) search(inspector *insight.Inspector, what sought) (finding, bool) {
	question := fmt.Sprint("search ", what.Level, what.Corrupt, what.Text)
	return read(v, question, 0, func(ctx context.Context) (finding, error) {
		a := v.known[question]
		last, ok := a.value.(finding)
		age := time.Since(a.asked)
		if ok && last.done && age < 10*v.interval {
			return last, nil
		}
		s := last.of
		if !ok || last.done || age > forgotten {
			s = &search{sought: what}
		}
		err := s.step(ctx, inspector)
		if insight.Forbidden(err) {
			err = fmt.Errorf("%w; it needs +scan %s on the keys ~%s:*", err, insight.PeekRights, v.Prefix())
		}
		f := finding{of: s, all: s.all, rows: slices.Clone(s.found), done: s.done}
		if s.walk != nil {
			f.progress = int(min(100*s.walk.Looked()/max(s.keys, 1), 100))
		}
		return f, err
	})
}
