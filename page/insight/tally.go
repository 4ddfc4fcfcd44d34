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
	"github.com/docpriority/priority/page/insight/census"
)

// mostRemembered bounds how many customers' counts are kept from one pass to the
// next: some 30 MB.
const mostRemembered = 200_000

// Tally goes through the counts of all customers, pass after pass, and makes a
// Snapshot of each. It is not safe for concurrent use.
type Tally struct {
	inspector *Inspector
	options   TallyOptions

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
func NewTally(inspector *Inspector, options TallyOptions) *Tally {
	return &Tally{inspector: inspector, options: options}
}

// Advance goes on with the pass until it is done, which it reports, or until the
// deadline; zero: there is none. After a pass it begins the next one. After an
// error, which is go-redis's or the context's, it begins the pass anew.
func (t *Tally) Advance(ctx context.Context, deadline time.Time) (done bool, err error) {
	if t.walk == nil {
		if err := t.begin(ctx); err != nil {
			return false, err
		}
	}
	for {
		entries, err := t.walk.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			t.finish()
			return true, nil
		case err != nil:
			t.walk = nil // the servers may be others now
			return false, err
		}
		t.looked += int64(t.walk.PageKeys())
		for _, entry := range entries {
			t.add(entry)
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

func (t *Tally) begin(ctx context.Context) error {
	walk, err := t.inspector.Walk(ctx, census.Options{Pace: t.options.Pace}, "")
	if err != nil {
		return err
	}
	// Without the right to DBSIZE there is no progress to show.
	t.keys, _ = walk.Keys(ctx)
	t.walk, t.looked = walk, 0
	t.now = Snapshot{Levels: make([]LevelLoad, t.inspector.Store.Last()), Busiest: []Busy{}, Policy: PolicyJSONOf(t.inspector.Policy.Policy)}
	for i := range t.now.Levels {
		t.now.Levels[i].Level = priority.First + priority.Level(i)
	}
	t.met = make(map[string]int64)
	return nil
}

func (t *Tally) add(entry census.Entry) {
	if _, again := t.met[entry.Customer]; again {
		return // SCAN may meet a key twice
	}
	if entry.Corrupt {
		t.now.Corrupt++
		return
	}
	policy := t.inspector.Store.PolicyOf(entry.Customer)
	level := policy.Level(entry.Count)
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
		t.now.Levels[level-1].Documents += n
		documents += n
	})
	t.rank(Busy{NameOf(entry.Customer), level, entry.Count, documents, entry.ResetIn.Milliseconds()})
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

func (t *Tally) finish() {
	t.now.At = time.Now()
	if !t.last.At.IsZero() {
		t.now.Since = t.now.At.Sub(t.last.At)
	}
	t.last, t.remembered, t.walk = t.now, t.met, nil
}
