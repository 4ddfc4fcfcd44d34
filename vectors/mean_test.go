package vectors_test

import (
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
)

// meanCases are the cases of mean.json, without what is sent.
func meanCases() []vectors.MeanCase {
	steps := func(steps ...vectors.MeanStep) []vectors.MeanStep { return steps }
	// A second each, and one document that took so long.
	usual := vectors.MeanStep{Took: 100 * second, N: 100, Ended: 100}
	took := func(took int64) vectors.MeanStep { return vectors.MeanStep{Took: took, N: 1, Ended: 1} }
	// Costs of a submit.
	told := func(costs ...float64) vectors.MeanStep { return vectors.MeanStep{Costs: costs} }
	same := func(n int, cost float64) vectors.MeanStep { return told(slices.Repeat([]float64{cost}, n)...) }
	many := make([]float64, 130)
	for i, next := 0, numbers(1); i < len(many); i++ {
		many[i] = float64(1+next(10_000_000)) / 1000
	}
	return []vectors.MeanCase{
		{Name: "done: a document that is the 100th has no cost yet", Steps: steps(vectors.MeanStep{Took: 99 * second, N: 99, Ended: 99}, took(second), took(second))},
		{Name: "done: a cost is told by those before", Steps: steps(usual, took(4*second), took(4*second), took(4*second))},
		{Name: "done: nothing is known of what took no time", Steps: steps(usual, took(0), took(second), vectors.MeanStep{N: 100, Ended: 100}, took(second))},
		{Name: "done: what was not pending is not added", Steps: steps(usual, vectors.MeanStep{Took: 30 * second, N: 10}, took(second),
			vectors.MeanStep{Took: 30 * second, N: 10, Ended: 4}, took(second))},
		{Name: "done: one that stood still counts as 20 usual ones", Steps: steps(usual, took(hour), took(second), took(hour), took(second))},
		{Name: "done: a cost is 1 to 100000, and of a day at most", Steps: steps(vectors.MeanStep{Took: 40_000 * second, N: 100, Ended: 100}, took(1), took(199),
			took(200), took(40_000*second), took(30*day), usual, took(second))},
		{Name: "submit: a cost is told by those before the call", Steps: steps(same(99, 2), told(8, 8, 8), told(8), told(8))},
		{Name: "submit: 0 is not known, and not one of the first 100", Steps: steps(told(0), same(50, 5), told(0, 0, 0), same(49, 5), told(5, 0), told(5, 0))},
		{Name: "submit: a dear one counts as 20 usual ones", Steps: steps(same(100, 1), told(1000), told(1, 1000), told(1))},
		{Name: "submit: a cost is 1 to 100000", Steps: steps(same(100, 1), told(1e-9), told(0.0014), told(0.0016), told(150), told(1e300), told(1))},
		{Name: "submit: what was told a thousand documents ago fades", Steps: append(slices.Repeat(steps(same(100, 7)), 11), slices.Repeat(steps(same(100, 21)), 5)...)},
		{Name: "submit and done have means of their own", Steps: steps(same(100, 1), told(5), took(second), usual, took(3*second), told(5))},
		{Name: "submit: costs of all kinds", Steps: steps(told(many[:100]...), told(many[100:120]...), told(many[120:]...))},
	}
}

// mean.json is what a fair.Mean comes to.
func TestMean(t *testing.T) {
	cases := meanCases()
	for _, c := range cases {
		var told, took fair.Mean
		for i := range c.Steps {
			step := &c.Steps[i]
			if step.Costs == nil {
				each := fair.Each(vectors.Milliseconds(step.Took), step.N)
				step.Sent = []int64{took.Relative(each)}
				for range step.Ended {
					took.Add(each)
				}
				continue
			}
			step.Sent = nil
			for _, cost := range step.Costs {
				step.Sent = append(step.Sent, told.Relative(cost))
			}
			for _, cost := range step.Costs {
				told.Add(cost)
			}
		}
	}
	compare(t, "mean.json", asFile(t, "cases", cases))
}

// load.json is what package fair comes to; README.md describes its lists.
func TestLoad(t *testing.T) {
	var lately, left [][2]int64
	var loads [][4]int64
	var turns [][3]int64
	now, next := time.UnixMilli(0), numbers(3)
	of := func(submitted, pending, cost int64) {
		loads = append(loads, [4]int64{submitted, pending, cost, fair.Load(submitted, pending, cost)})
	}
	for _, ttl := range []int64{1, day / 2, day - 1, day, day + 1, 10*day - 1, 10 * day, 10*day + 1} {
		lately = append(lately, [2]int64{ttl, fair.History{Fades: now.Add(vectors.Milliseconds(ttl))}.Lately(now)})
	}
	for range 20 {
		ttl, submitted := 1+next(10*day), 1000+next(511_001)
		lately = append(lately, [2]int64{ttl, fair.History{Fades: now.Add(vectors.Milliseconds(ttl))}.Lately(now)})
		var h fair.History
		h.Submitted(submitted, now)
		left = append(left, [2]int64{submitted, h.Fades.Sub(now).Milliseconds()})
		of(1000+next(600_000), 1+next(1+next(100_000)), 1+next(1+next(100_000)))
	}
	of(512_001, 1, 1000)
	of(512_000, 19_532, 100_000) // above a billion
	of(512_000, 1_000_000_000, 999_999)
	for _, most := range []int64{0, 3, 62} {
		for _, beyond := range []int64{1, 2, 3, 4, 7, 8, 8191, 8192, 1_000_000} {
			turns = append(turns, [3]int64{beyond, most, int64(fair.Turn(beyond, int(most)))})
		}
	}
	compare(t, "load.json", asFile(t, "lately", lately, "left", left, "loads", loads, "turns", turns))
}

// numbers returns numbers that no eye has chosen, but the same ones always.
func numbers(seed int64) func(below int64) int64 {
	return func(below int64) int64 {
		seed = seed * 48_271 % (1<<31 - 1) // the multiplier of C++'s minstd_rand
		return seed % below
	}
}
