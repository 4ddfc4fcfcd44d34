package page

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

const (
	mostComparisons = 20 // that are kept
	mostExamples    = 20
)

// comparisons are made one at a time, and kept for a while.
type comparisons struct {
	cache *cache
	made  *cells[[sha256.Size]byte, insight.Compared]

	mu    sync.Mutex // guards asked
	asked map[[sha256.Size]byte]asked
}

// asked is what to compare.
type asked struct {
	by   *insight.Inspector
	a, b insight.NamedRules
	step *steps
}

// steps is the progress of a comparison.
type steps struct {
	mu       sync.Mutex
	progress int
}

func newComparisons(cache *cache, options Options) *comparisons {
	c := &comparisons{cache: cache, asked: make(map[[sha256.Size]byte]asked)}
	c.made = newCells(cache.background, 10*options.Interval, mostComparisons, c.run)
	return c
}

// of returns the result so far of comparing what decides now with other rules, and
// the progress.
func (c *comparisons) of(ctx context.Context, by *insight.Inspector, a, b insight.NamedRules) (looked[insight.Compared], int) {
	text, err := json.Marshal([]any{a.Rules, b.Rules, a.Name, b.Name})
	if err != nil {
		return looked[insight.Compared]{err: err}, 0
	}
	key := sha256.Sum256(text)
	c.mu.Lock()
	step := c.asked[key].step
	if step == nil {
		step = &steps{}
	}
	c.asked[key] = asked{by, a, b, step} // another inspector may have other tiers
	for other := range c.asked {
		if len(c.asked) > mostComparisons && other != key {
			delete(c.asked, other)
		}
	}
	c.mu.Unlock()
	found := c.made.get(ctx, key)
	step.mu.Lock()
	defer step.mu.Unlock()
	return found, step.progress
}

var errForgotten = errors.New("too many others compare: try again")

// run goes through all customers, as long as somebody waits for it.
func (c *comparisons) run(ctx context.Context, key [sha256.Size]byte) (insight.Compared, error) {
	c.mu.Lock()
	asked, ok := c.asked[key]
	c.mu.Unlock()
	if !ok {
		return insight.Compared{}, errForgotten
	}
	comparison, err := insight.NewComparison(asked.by, asked.a, asked.b, insight.ComparisonOptions{Pace: c.cache.pace, Examples: mostExamples})
	if err != nil {
		return insight.Compared{}, err
	}
	err = c.cache.walk(ctx, func() time.Duration { return c.made.of(key).idle() }, func() (bool, error) {
		done, err := comparison.Advance(ctx, time.Now().Add(stepTime))
		asked.step.mu.Lock()
		defer asked.step.mu.Unlock()
		asked.step.progress = comparison.Progress()
		return done, err
	})
	if err != nil {
		return insight.Compared{}, err
	}
	return comparison.Found(), nil
}
