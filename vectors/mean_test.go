package vectors_test

import (
	"testing"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
)

// meanCases are the cases of mean.json, without what is sent.
func meanCases() []vectors.MeanCase {
	steps := func(steps ...vectors.MeanStep) []vectors.MeanStep { return steps }
	many := func(n int, step vectors.MeanStep, then ...vectors.MeanStep) (all []vectors.MeanStep) {
		for range n {
			all = append(all, step)
		}
		return append(all, then...)
	}
	// A second each, and one document that took so long.
	usual := vectors.MeanStep{Took: 100 * second, N: 100, Ended: 100}
	took := func(took int64) vectors.MeanStep { return vectors.MeanStep{Took: took, N: 1, Ended: 1} }
	// Costs of a submit.
	told := func(costs ...float64) vectors.MeanStep { return vectors.MeanStep{Costs: costs} }
	same := func(n int, cost float64) vectors.MeanStep {
		costs := make([]float64, n)
		for i := range costs {
			costs[i] = cost
		}
		return vectors.MeanStep{Costs: costs}
	}
	return []vectors.MeanCase{
		{Name: "done: no cost is known before 100 documents have ended", Steps: many(100, took(second), took(second), took(2*second))},
		{Name: "done: a document that is the 100th has none yet", Steps: steps(vectors.MeanStep{Took: 99 * second, N: 99, Ended: 99}, took(second), took(second))},
		{Name: "done: a cost is told by those before", Steps: steps(usual, took(4*second), took(4*second), took(4*second))},
		{Name: "done: nothing is known of what took no time", Steps: steps(usual, took(0), took(second), vectors.MeanStep{N: 100, Ended: 100}, took(second))},
		{Name: "done: what was not pending is not added", Steps: steps(usual, vectors.MeanStep{Took: 30 * second, N: 10}, took(second),
			vectors.MeanStep{Took: 30 * second, N: 10, Ended: 4}, took(second))},
		{Name: "done: what was not pending is not one of the first 100", Steps: steps(vectors.MeanStep{Took: 100 * second, N: 100, Ended: 99}, took(second), took(second))},
		{Name: "done: what has ended a thousand documents ago fades", Steps: many(11, usual, many(15, vectors.MeanStep{Took: 200 * second, N: 100, Ended: 100})...)},
		{Name: "done: one that stood still counts as 20 usual ones", Steps: steps(usual, took(hour), took(second), took(hour), took(second))},
		{Name: "done: one of the first that stood still counts as a day", Steps: many(99, took(second), took(4*day), took(second), took(day))},
		{Name: "done: a cost is 1 to 100000", Steps: steps(vectors.MeanStep{Took: 40_000 * second, N: 100, Ended: 100}, took(1), took(199), took(200), took(hour),
			took(40_000*second), took(day), took(30*365*day), usual, took(second))},
		{Name: "done: times of all kinds", Steps: manyTimes()},

		{Name: "submit: no cost is known before 100 were told", Steps: steps(same(99, 3), told(3), told(3), told(6, 1.5))},
		{Name: "submit: a cost is told by those before the call", Steps: steps(same(100, 2), told(8, 8, 8), told(8), told(8))},
		{Name: "submit: 0 is not known, and not one of the first 100", Steps: steps(told(0), same(50, 5), told(0, 0, 0), same(49, 5), told(5, 0), told(5, 0))},
		{Name: "submit: a dear one counts as 20 usual ones", Steps: steps(same(100, 1), told(1000), told(1, 1000), told(1))},
		{Name: "submit: but not one of the first 100", Steps: steps(same(99, 1), told(901), told(10, 1))},
		{Name: "submit: a cost is 1 to 100000", Steps: steps(same(100, 1), told(1e-9), told(0.0014), told(0.0016), told(90), told(150), told(1e300), told(1))},
		{Name: "submit: what was told a thousand documents ago fades", Steps: many(11, same(100, 7), many(15, same(100, 21))...)},
		{Name: "submit: the unit does not matter, bytes", Steps: many(2, told(manyCosts(50, 1)...), told(manyCosts(20, 2)...), told(1_048_576))},
		{Name: "submit: nor fractions", Steps: many(2, told(manyFractions(50, 1)...), told(manyFractions(20, 2)...), told(0.1, 0.2, 0.3))},
		{Name: "submit and done have means of their own", Steps: steps(same(100, 1), told(5), took(second), usual, took(3*second), told(5))},
		{Name: "submit: costs of all kinds", Steps: manyTold()},
	}
}

// numbers returns numbers that no eye has chosen, but the same ones always.
func numbers(seed int64) func(below int64) int64 {
	return func(below int64) int64 {
		seed = seed * 48_271 % (1<<31 - 1) // the multiplier of C++'s minstd_rand
		return seed % below
	}
}

func manyTimes() (steps []vectors.MeanStep) {
	next := numbers(1)
	for range 200 {
		n := int(1 + next(50))
		steps = append(steps, vectors.MeanStep{Took: (1 + next(3000)) * int64(n), N: n, Ended: int(next(int64(n + 1)))})
	}
	return steps
}

func manyTold() (steps []vectors.MeanStep) {
	next := numbers(2)
	for range 60 {
		steps = append(steps, vectors.MeanStep{Costs: manyFractions(int(1+next(12)), next(1<<20))})
	}
	return steps
}

func manyCosts(n int, seed int64) []float64 {
	next, costs := numbers(seed), make([]float64, n)
	for i := range costs {
		costs[i] = float64(1 + next(10_000_000))
	}
	return costs
}

func manyFractions(n int, seed int64) []float64 {
	costs := manyCosts(n, seed+1)
	for i := range costs {
		costs[i] /= 1000
	}
	return costs
}

// mean.json is what a fair.Mean comes to.
func TestMeanVectors(t *testing.T) {
	t.Parallel()
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
