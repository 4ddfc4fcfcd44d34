package page

import (
	"cmp"
	"context"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/insight/census"
)

const (
	mostSearches = 20   // that are kept
	mostFound    = 1000 // customers of a search

	mostRemembered = 200_000 // customers of a search, so that no customer counts twice
)

// sought says which customers to look for.
type sought struct {
	text    string // in lower case
	level   priority.Level
	corrupt bool // only those with a corrupt key
}

// matches reports whether the search is for this customer.
func (s sought) matches(l insight.Listed) bool {
	if s.corrupt && l.Corrupt == "" || s.level > 0 && (l.Corrupt != "" || l.NextLevel != s.level) {
		return false
	}
	customer := l.Exact()
	return s.text == "" || strings.Contains(strings.ToLower(customer), s.text) || strings.Contains(strings.ToLower(insight.Shown(customer)), s.text)
}

// finding is what a search has found so far. It does not change.
type finding struct {
	customers []insight.Listed // at most mostFound, the last levels first
	all       int64            // how many match
	progress  int              // in percent
}

func (f *finding) add(l insight.Listed) {
	f.all++
	if f.customers = append(f.customers, l); len(f.customers) >= 2*mostFound {
		*f = f.sorted()
	}
}

// sorted returns a copy with the customers who matter most.
func (f finding) sorted() finding {
	f.customers = slices.Clone(f.customers)
	slices.SortFunc(f.customers, func(a, b insight.Listed) int {
		return cmp.Or(cmp.Compare(rank(b), rank(a)), strings.Compare(a.Exact(), b.Exact()))
	})
	f.customers = f.customers[:min(len(f.customers), mostFound)]
	return f
}

// rank orders customers: corrupt ones first, then by the level of the next document
// without an override, and within a level by load or by count.
func rank(l insight.Listed) float64 {
	if l.Corrupt != "" {
		return math.Inf(1)
	}
	number := math.Log2(1+l.Load) / 64
	if l.ByCount() {
		number = math.Log2(1+float64(l.Documents())) / 64
	}
	return float64(l.Ruled()) + min(number, 1)
}

// searches walk through all customers, each as long as somebody waits for it.
type searches struct {
	cache *cache
	done  *cells[sought, finding]

	mu  sync.Mutex // guards far
	far map[sought]finding
}

func newSearches(cache *cache, options Options) *searches {
	s := &searches{cache: cache, far: make(map[sought]finding)}
	s.done = newCells(cache.background, 10*options.Interval, mostSearches, s.run)
	return s
}

// of returns what a search has found: the last finished search, else the search under
// way.
func (s *searches) of(ctx context.Context, what sought) (found looked[finding], under bool) {
	found = s.done.get(ctx, what)
	if errors.Is(found.err, errUnwatched) {
		found.err = nil
	}
	if !found.at.IsZero() || found.err != nil {
		found.late = found.late && found.err != nil // a walk may take long
		return found, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	far, under := s.far[what]
	found.late = found.late && !under && s.idle()
	found.value = far
	return found, true
}

// idle reports whether no walk is under way.
func (s *searches) idle() bool { return len(s.cache.turn) == 0 }

func (s *searches) run(ctx context.Context, what sought) (finding, error) {
	defer func() {
		s.mu.Lock()
		delete(s.far, what)
		s.mu.Unlock()
	}()
	inspector, _ := s.cache.now(ctx) // the page says that it is not known
	var walk *census.Walk
	var keys int64
	var found finding
	met := make(map[string]struct{})
	err := s.cache.walk(ctx, func() time.Duration { return s.done.of(what).idle() }, func() (done bool, err error) {
		if walk == nil {
			if walk, err = inspector.Walk(ctx, census.Options{Pace: s.cache.pace}, ""); err != nil {
				return false, err
			}
			keys, _ = walk.Keys(ctx) // without the right to DBSIZE there is no progress to show
		}
		for until := time.Now().Add(stepTime); !done && time.Now().Before(until); {
			entries, err := walk.Next(ctx, inspector.Store)
			if done = errors.Is(err, io.EOF); err != nil && !done {
				return false, s.cache.explained(err)
			}
			for _, entry := range entries {
				l := inspector.Listed(entry)
				who := entry.Customer + "\x00" + entry.Corrupt
				if _, again := met[who]; again || !what.matches(l) {
					continue // SCAN may meet a key twice
				}
				if len(met) < mostRemembered {
					met[who] = struct{}{}
				}
				found.add(l)
			}
			done = done || walk.Done()
		}
		found.progress = int(min(100*walk.Looked()/max(keys, 1), 100))
		s.mu.Lock()
		s.far[what] = found.sorted()
		s.mu.Unlock()
		return done, nil
	})
	return found.sorted(), err
}
