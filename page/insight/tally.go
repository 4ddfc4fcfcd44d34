package insight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight/census"
)

// mostRemembered bounds how many customers' counts are kept from one pass to the
// next: some 30 MB.
const mostRemembered = 200_000

// Tally goes through the counts of all customers, pass after pass, and makes a
// Snapshot of each. It is not safe for concurrent use.
type Tally struct {
	options TallyOptions

	walk       *census.Walk // nil: between two passes
	keys       int64        // of the servers, when the pass began
	looked     int64        // at so many of them
	now        Snapshot
	last       Snapshot
	remembered map[string]int64 // counts of the pass before
	met        map[string]int64 // and of this one
}

// TallyOptions say how passes are made.
type TallyOptions struct {
	Pace    int // how many keys a second are looked at; 0: as fast as Redis answers
	Busiest int // how many of the busiest customers a Snapshot names
}

// NewTally returns a Tally that has looked at nothing yet.
func NewTally(options TallyOptions) *Tally { return &Tally{options: options} }

// Advance goes on with the pass until it is done, which it reports, or until the
// deadline; zero: there is none. After a pass it begins the next one. After an
// error, which is go-redis's or the context's, it begins the pass anew.
//
// The inspector says what levels the counts of this step have: it may be another one
// at each step, of the same fleet, as operators change something.
func (t *Tally) Advance(ctx context.Context, inspector *Inspector, deadline time.Time) (done bool, err error) {
	if t.walk == nil {
		if err := t.begin(ctx, inspector); err != nil {
			return false, err
		}
	}
	for {
		entries, err := t.walk.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			t.finish(inspector)
			return true, nil
		case err != nil:
			t.walk = nil // the servers may be others now
			return false, err
		}
		t.looked = t.walk.Looked()
		for _, entry := range entries {
			t.add(inspector, entry)
		}
		if !t.walk.Done() && !deadline.IsZero() && time.Now().After(deadline) {
			return false, nil
		}
	}
}

// Last returns what the last pass has found that was done.
func (t *Tally) Last() Snapshot { return t.last }

// Midway reports whether a pass has begun and is not done.
func (t *Tally) Midway() bool { return t.walk != nil }

// Status says what the last pass has found, and how far the next one is.
func (t *Tally) Status() string {
	switch {
	case t.last.At.IsZero():
		return fmt.Sprintf("first pass: %d %% of %s", t.progress(), Plural(t.keys, "key"))
	case t.Midway():
		return fmt.Sprintf("%s; next pass: %d %%", t.last, t.progress())
	}
	return t.last.String()
}

// progress is how much of a pass is done, in percent, about.
func (t *Tally) progress() int {
	return int(min(100*t.looked/max(t.keys, 1), 100))
}

func (t *Tally) begin(ctx context.Context, inspector *Inspector) error {
	walk, err := inspector.Walk(ctx, census.Options{Pace: t.options.Pace}, "")
	if err != nil {
		return err
	}
	// Without the right to DBSIZE there is no progress to show.
	t.keys, _ = walk.Keys(ctx)
	t.walk, t.looked = walk, 0
	t.now = Snapshot{Busiest: []Busy{}}
	t.levels(inspector.LastLevel())
	t.met = make(map[string]int64)
	return nil
}

// levels makes sure that the snapshot has all levels up to the last one.
func (t *Tally) levels(last priority.Level) {
	for level := priority.First + priority.Level(len(t.now.Levels)); level <= last; level++ {
		t.now.Levels = append(t.now.Levels, LevelLoad{Level: level})
	}
}

func (t *Tally) add(inspector *Inspector, entry census.Entry) {
	if _, again := t.met[entry.Customer]; again {
		return // SCAN may meet a key twice
	}
	if entry.Corrupt {
		t.now.Corrupt++
		return
	}
	policy := inspector.Store.PolicyOf(entry.Customer)
	level, overridden := inspector.overridden(entry.Customer, policy.Level(entry.Count))
	t.levels(max(level, policy.Last()))
	t.now.Levels[level-1].Customers++
	before, known := t.remembered[entry.Customer]
	if !known || before < entry.Count {
		before = 1 // all since the reset
		if len(t.remembered) >= mostRemembered && !known {
			t.now.Unknown++
			before = entry.Count
		}
	}
	if len(t.met) < mostRemembered {
		t.met[entry.Customer] = entry.Count
	}
	var documents int64
	spread(policy, before, entry.Count, func(level priority.Level, n int64) {
		level, _ = inspector.overridden(entry.Customer, level)
		t.now.Levels[level-1].Documents += n
		documents += n
	})
	t.rank(Busy{NameOf(entry.Customer), level, entry.Count, documents, entry.ResetIn.Milliseconds(), overridden})
}

// rank puts a customer in its place among the busiest.
func (t *Tally) rank(b Busy) {
	at, _ := slices.BinarySearchFunc(t.now.Busiest, b, busier)
	if at < t.options.Busiest {
		t.now.Busiest = slices.Insert(t.now.Busiest, at, b)
		t.now.Busiest = t.now.Busiest[:min(len(t.now.Busiest), t.options.Busiest)]
	}
}

// busier orders by documents, then by how low the count is.
func busier(a, b Busy) int {
	return cmp.Or(
		cmp.Compare(b.Documents, a.Documents),
		cmp.Compare(a.Count, b.Count),
		strings.Compare(a.Exact(), b.Exact()),
	)
}

func (t *Tally) finish(inspector *Inspector) {
	t.now.At = time.Now()
	policies := inspector.Store.Policies()
	t.now.Policy = control.Rules{Policy: policies.Policy(), Tiers: policies.Tiers()}
	if !t.last.At.IsZero() {
		t.now.Since = t.now.At.Sub(t.last.At)
	}
	t.last, t.remembered, t.walk = t.now, t.met, nil
}
