package main

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/census"
)

// mostRemembered bounds how many customers' counts are kept from one pass to the
// next: some 30 MB.
const mostRemembered = 200_000

// snapshot is what one pass through all counts has found.
type snapshot struct {
	At        time.Time
	Since     time.Duration // since the pass before; 0: documents are those since the resets
	Customers []int64       // of each level, from level 1
	Documents []int64       // likewise
	Corrupt   int64
	Unknown   int64 // customers whose documents are not known, beyond mostRemembered
	Busiest   []busy
}

// busy is a customer with many documents.
type busy struct {
	Customer  string
	Level     priority.Level
	Count     int64
	Documents int64
	ResetIn   time.Duration
}

// tally makes snapshots, one after the other.
type tally struct {
	connection *connection
	options    census.Options
	busiest    int // how many

	walk       *census.Walk // nil: between two passes
	keys       int64        // of the servers, when the pass began
	looked     int64        // at so many of them
	now        snapshot
	last       snapshot
	remembered map[string]int64 // counts of the pass before
	met        map[string]int64 // and of this one
}

// advance goes on with the pass until it is done, which it reports, or until the
// deadline.
func (t *tally) advance(ctx context.Context, deadline time.Time) (done bool, err error) {
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

// progress is how much of a pass is done, in percent, about.
func (t *tally) progress() int {
	return int(min(100*t.looked/max(t.keys, 1), 100))
}

func (t *tally) begin(ctx context.Context) error {
	walk, err := census.Start(ctx, t.connection.client, t.options, "")
	if err != nil {
		return err
	}
	// Without the right to DBSIZE there is no progress to show.
	t.keys, _ = walk.Keys(ctx)
	levels := t.connection.policy.Last()
	t.walk, t.looked = walk, 0
	t.now = snapshot{Customers: make([]int64, levels), Documents: make([]int64, levels)}
	t.met = make(map[string]int64)
	return nil
}

func (t *tally) add(entry census.Entry) {
	if _, again := t.met[entry.Customer]; again {
		return // SCAN may meet a key twice
	}
	if entry.Corrupt {
		t.now.Corrupt++
		return
	}
	policy := t.connection.policy.Policy
	level := policy.Level(entry.Count)
	t.now.Customers[level-1]++
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
	levelSpread(policy, before, entry.Count, func(level priority.Level, n int64) {
		t.now.Documents[level-1] += n
		documents += n
	})
	t.rank(busy{entry.Customer, level, entry.Count, documents, entry.ResetIn})
}

// rank puts a customer in its place among the busiest.
func (t *tally) rank(b busy) {
	at, _ := slices.BinarySearchFunc(t.now.Busiest, b, busier)
	if at < t.busiest {
		t.now.Busiest = slices.Insert(t.now.Busiest, at, b)
		t.now.Busiest = t.now.Busiest[:min(len(t.now.Busiest), t.busiest)]
	}
}

// busier orders by documents, then by how low the count is.
func busier(a, b busy) int {
	switch {
	case a.Documents != b.Documents:
		return compare(b.Documents, a.Documents)
	case a.Count != b.Count:
		return compare(a.Count, b.Count)
	}
	return strings.Compare(a.Customer, b.Customer)
}

func compare(a, b int64) int {
	if a < b {
		return -1
	}
	return 1
}

func (t *tally) finish() {
	t.now.At = time.Now()
	if !t.last.At.IsZero() {
		t.now.Since = t.now.At.Sub(t.last.At)
	}
	t.last, t.remembered, t.walk = t.now, t.met, nil
}
