package page

import (
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

const (
	pace         = 10_000                 // keys a second that a search looks at
	stepTime     = 500 * time.Millisecond // of a search, for each look at its page
	forgotten    = 30 * time.Second       // after its last step a search begins again
	mostSearches = 20                     // that are remembered
)

// sought says which customers to look for, and which of them come first.
type sought struct {
	Text    string
	Level   priority.Level // 0: any
	Corrupt bool           // only those with a corrupt key
	Sort    string
}

func (s sought) matches(l insight.Listed) bool {
	if s.Corrupt && l.Corrupt == "" || s.Level > 0 && (l.Corrupt != "" || l.NextLevel != s.Level) {
		return false
	}
	return has(s.Text, l.Exact(), insight.Shown(l.Exact()))
}

// sorts are the numbers by which customers are sorted, the greatest first.
var sorts = map[string]func(insight.Listed) float64{
	"": func(l insight.Listed) float64 { // by level, and within a level by load or by count
		number := l.Load
		if l.ByCount() {
			number = float64(l.Documents())
		}
		return float64(l.RuleLevel) + min(math.Log2(1+number)/64, 1)
	},
	"pending": func(l insight.Listed) float64 { return float64(l.Pending) },
	"oldest":  func(l insight.Listed) float64 { return float64(l.OldestMS) },
}

// order puts corrupt customers first.
func (s sought) order(a, b insight.Listed) int {
	rank := func(l insight.Listed) float64 {
		if l.Corrupt != "" {
			return math.Inf(1)
		}
		return sorts[s.Sort](l)
	}
	return cmp.Or(cmp.Compare(rank(b), rank(a)), strings.Compare(a.Exact(), b.Exact()))
}

// first returns the customers that are listed.
func (s sought) first(rows map[string]insight.Listed) []insight.Listed {
	sorted := slices.SortedFunc(maps.Values(rows), s.order)
	return sorted[:min(len(sorted), mostRows)]
}

// searches are the last searches. One visitor at a time goes on with one.
type searches struct {
	searching sync.Mutex // guards all, and is held while Redis is asked
	known     map[sought]*search
}

// search is a walk through all customers, which goes on whenever its page is looked at.
type search struct {
	walk    *insight.Walk
	stepped time.Time
	rows    map[string]insight.Listed // who may come first, by name and corrupt key
	matched int64
}

// step goes on for a while, or to the end.
func (s *search) step(ctx context.Context, what sought) error {
	for until := time.Now().Add(stepTime); !s.walk.Done() && time.Now().Before(until); {
		page, err := s.walk.Next(ctx)
		if err != nil {
			return err
		}
		for _, l := range page {
			who := l.Exact() + "\x00" + l.Corrupt
			if _, met := s.rows[who]; !met && what.matches(l) { // SCAN may return a key twice
				s.rows[who] = l
				s.matched++
			}
		}
		if len(s.rows) > 10*mostRows {
			last := what.first(s.rows)[mostRows-1]
			maps.DeleteFunc(s.rows, func(_ string, l insight.Listed) bool { return what.order(l, last) > 0 })
		}
		s.stepped = time.Now()
	}
	return nil
}

// searchFor returns a search for what is sought, which has gone on; nil: there is none.
func (v *visit) searchFor(what sought) *search {
	s := v.known[what]
	if v.Away {
		return s
	}
	if s == nil || time.Since(s.stepped) > forgotten {
		s = &search{walk: v.Look.Walk(pace), stepped: time.Now(), rows: make(map[string]insight.Listed)}
		if v.known == nil {
			v.known = make(map[sought]*search)
		}
		v.known[what] = s
	}
	if len(v.known) > mostSearches {
		delete(v.known, slices.MinFunc(slices.Collect(maps.Keys(v.known)), func(a, b sought) int { return v.known[a].stepped.Compare(v.known[b].stepped) }))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(v.request.Context()), patience)
	defer cancel()
	if err := s.step(ctx, what); err != nil {
		v.note(err)
	}
	return s
}

// customersView shows what a search has found.
type customersView struct {
	sought
	Rows     []insight.Listed
	Matched  int64
	More     int64 // customers that are not listed
	Levels   []priority.Level
	Known    bool // there is something to show
	Under    bool // the search goes on
	Progress int  // in percent
}

// customers shows who is found by a search through all.
func (v *visit) customers() (string, any) {
	what := sought{Text: v.ask("q"), Corrupt: v.request.URL.Query().Has("corrupt"), Sort: v.ask("sort")}
	if sorts[what.Sort] == nil {
		what.Sort = ""
	}
	if level, err := strconv.ParseUint(v.ask("level"), 10, 8); err == nil && !what.Corrupt {
		what.Level = priority.Level(level)
	}
	view := customersView{sought: what}
	v.Refresh = 0
	for level := priority.First; level <= v.Look.Last; level++ {
		view.Levels = append(view.Levels, level)
	}
	v.searching.Lock()
	defer v.searching.Unlock()
	if s := v.searchFor(what); s != nil {
		view.Rows, view.Matched, view.Under, view.Progress = what.first(s.rows), s.matched, !s.walk.Done(), s.walk.Progress()
		view.Known, view.More = true, s.matched-int64(len(view.Rows))
	}
	if view.Under {
		v.Refresh = stepTime
	}
	return "Customers", view
}
