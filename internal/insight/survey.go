package insight

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight/census"
)

// mostRemembered bounds how many customers' counts are kept from one pass to the
// next: some 30 MB.
const mostRemembered = 200_000

// Survey goes through all customers, pass after pass, and makes a Snapshot of each. It is not safe for concurrent use.
type Survey struct {
	options SurveyOptions

	walk       *census.Walk // nil: between two passes
	keys       int64        // of the servers, when the pass began
	looked     int64        // at so many of them
	now        Snapshot
	last       Snapshot
	remembered map[string]int64 // counts of the pass before
	met        map[string]int64 // and of this one
}

// SurveyOptions say how passes are made.
type SurveyOptions struct {
	Pace    int // how many keys a second are looked at; 0: as fast as Redis answers
	Busiest int // how many of the busiest customers a Snapshot names
}

// NewSurvey returns a Survey that has looked at nothing yet.
func NewSurvey(options SurveyOptions) *Survey { return &Survey{options: options} }

// Advance goes on with the pass until it is done, which it reports, or until the
// deadline; zero: there is none. After a pass it begins the next one. After an
// error, which is go-redis's or the context's, it begins the pass again.
//
// The inspector says what levels the customers of this step have: it may be another one
// at each step, of the same fleet, as operators change something.
func (s *Survey) Advance(ctx context.Context, inspector *Inspector, deadline time.Time) (done bool, err error) {
	if s.walk == nil {
		if err := s.begin(ctx, inspector); err != nil {
			return false, err
		}
	}
	for {
		entries, err := s.walk.Next(ctx, inspector.Store)
		switch {
		case errors.Is(err, io.EOF):
			s.finish(inspector)
			return true, nil
		case err != nil:
			s.walk = nil // the servers may be others now
			return false, err
		}
		s.looked = s.walk.Looked()
		for _, entry := range entries {
			s.add(inspector, entry)
		}
		if !s.walk.Done() && !deadline.IsZero() && time.Now().After(deadline) {
			return false, nil
		}
	}
}

// Last returns what the last pass has found that was done.
func (s *Survey) Last() Snapshot { return s.last }

// Midway reports whether a pass has begun and is not done.
func (s *Survey) Midway() bool { return s.walk != nil }

// Status says what the last pass has found, and how far the next one is.
func (s *Survey) Status() string {
	switch {
	case s.last.At.IsZero():
		return fmt.Sprintf("first pass: %d %% of %s", s.progress(), Plural(s.keys, "key"))
	case s.Midway():
		return fmt.Sprintf("%s; next pass: %d %%", s.last, s.progress())
	}
	return s.last.String()
}

// progress is how much of a pass is done, in percent, about.
func (s *Survey) progress() int {
	return int(min(100*s.looked/max(s.keys, 1), 100))
}

func (s *Survey) begin(ctx context.Context, inspector *Inspector) error {
	walk, err := inspector.Walk(ctx, census.Options{Pace: s.options.Pace}, "")
	if err != nil {
		return err
	}
	// Without the right to DBSIZE there is no progress to show.
	s.keys, _ = walk.Keys(ctx)
	s.walk, s.looked = walk, 0
	s.now = Snapshot{Busiest: []Busy{}}
	s.levels(inspector.LastLevel())
	s.met = make(map[string]int64)
	return nil
}

// levels makes sure that the snapshot has all levels up to the last one.
func (s *Survey) levels(last priority.Level) {
	for level := priority.First + priority.Level(len(s.now.Levels)); level <= last; level++ {
		s.now.Levels = append(s.now.Levels, LevelLoad{Level: level})
	}
}

func (s *Survey) add(inspector *Inspector, entry census.Entry) {
	if entry.Corrupt != "" {
		s.now.Corrupt++
		return
	}
	if _, again := s.met[entry.Customer]; again {
		return // SCAN may meet a key twice
	}
	policy, state := inspector.Store.PolicyOf(entry.Customer), inspector.stateOf(entry.Customer, entry.State)
	s.levels(max(state.NextLevel, policy.Last()))
	s.now.Levels[state.NextLevel-1].Customers++
	busy := Busy{Name: NameOf(entry.Customer), State: state}
	if state.ByLoad() {
		s.now.ByLoad++
		// They keep the level that they were given.
		s.now.Levels[state.Ruled()-1].Pending += state.Pending
	} else {
		s.now.ByCount++
		busy.Documents = s.documents(inspector, policy, entry)
	}
	if len(s.met) < mostRemembered {
		s.met[entry.Customer] = state.Count
	}
	s.rank(busy)
}

// documents notes how many documents of a customer got which levels by count since the
// pass before, and returns how many there were.
func (s *Survey) documents(inspector *Inspector, policy priority.Policy, entry census.Entry) (documents int64) {
	count := entry.State.Count
	before, known := s.remembered[entry.Customer]
	if !known || before < count {
		before = 1 // all since the reset
		if len(s.remembered) >= mostRemembered && !known {
			s.now.Unknown++
			before = count
		}
	}
	spread(policy, before, count, func(level priority.Level, n int64) {
		level, _ = inspector.overridden(entry.Customer, level)
		s.now.Levels[level-1].Documents += n
		documents += n
	})
	return documents
}

// rank puts a customer in its place among the busiest.
func (s *Survey) rank(b Busy) {
	at, _ := slices.BinarySearchFunc(s.now.Busiest, b, busier)
	if at < s.options.Busiest {
		s.now.Busiest = slices.Insert(s.now.Busiest, at, b)
		s.now.Busiest = s.now.Busiest[:min(len(s.now.Busiest), s.options.Busiest)]
	}
}

func (s *Survey) finish(inspector *Inspector) {
	s.now.At = time.Now()
	s.now.Policy = inspector.Rules()
	if !s.last.At.IsZero() {
		s.now.Since = s.now.At.Sub(s.last.At)
	}
	s.last, s.remembered, s.walk = s.now, s.met, nil
}
