package vectors_test

import (
	"testing"

	"github.com/docpriority/priority/internal/fair"
)

// The format of mean.json; README.md describes it.
type (
	meanCase struct {
		Name  string     `json:"name"`
		Steps []meanStep `json:"steps"`
	}
	// meanStep is a submit of documents with costs, or a done of n documents.
	meanStep struct {
		Costs []float64 `json:"costs,omitempty"` // that submit is told, one for each document
		Took  int64     `json:"took_ms,omitempty"`
		N     int       `json:"n,omitempty"`
		Ended int       `json:"ended,omitempty"` // of the n documents, as Redis answers
		Sent  []int64   `json:"sent"`            // to Redis: a cost for each document of a submit, one for a done
	}
)

// meanCases are the cases of mean.json, without what is sent.
func meanCases() []meanCase {
	steps := func(steps ...meanStep) []meanStep { return steps }
	many := func(n int, step meanStep, then ...meanStep) (all []meanStep) {
		for range n {
			all = append(all, step)
		}
		return append(all, then...)
	}
	// A second each, and one document that took so long.
	usual := meanStep{Took: 100 * second, N: 100, Ended: 100}
	took := func(took int64) meanStep { return meanStep{Took: took, N: 1, Ended: 1} }
	// Costs of a submit.
	told := func(costs ...float64) meanStep { return meanStep{Costs: costs} }
	same := func(n int, cost float64) meanStep {
		costs := make([]float64, n)
		for i := range costs {
			costs[i] = cost
		}
		return meanStep{Costs: costs}
	}
	return []meanCase{
		{"done: no cost is known before 100 documents have ended", many(100, took(second), took(second), took(2*second))},
		{"done: a document that is the 100th has none yet", steps(meanStep{Took: 99 * second, N: 99, Ended: 99}, took(second), took(second))},
		{"done: a cost is told by those before", steps(usual, took(4*second), took(4*second), took(4*second))},
		{"done: nothing is known of what took no time", steps(usual, took(0), took(second), meanStep{N: 100, Ended: 100}, took(second))},
		{"done: what was not pending is not added", steps(usual, meanStep{Took: 30 * second, N: 10}, took(second),
			meanStep{Took: 30 * second, N: 10, Ended: 4}, took(second))},
		{"done: what was not pending is not one of the first 100", steps(meanStep{Took: 100 * second, N: 100, Ended: 99}, took(second), took(second))},
		{"done: what has ended a thousand documents ago fades", many(11, usual, many(15, meanStep{Took: 200 * second, N: 100, Ended: 100})...)},
		{"done: one that stood still counts as 20 usual ones", steps(usual, took(hour), took(second), took(hour), took(second))},
		{"done: one of the first that stood still counts as a day", many(99, took(second), took(4*day), took(second), took(day))},
		{"done: a cost is 1 to 100000", steps(meanStep{Took: 40_000 * second, N: 100, Ended: 100}, took(1), took(199), took(200), took(hour),
			took(40_000*second), took(day), took(30*365*day), usual, took(second))},
		{"done: times of all kinds", manyTimes()},

		{"submit: no cost is known before 100 were told", steps(same(99, 3), told(3), told(3), told(6, 1.5))},
		{"submit: a cost is told by those before the call", steps(same(100, 2), told(8, 8, 8), told(8), told(8))},
		{"submit: 0 is not known, and not one of the first 100", steps(told(0), same(50, 5), told(0, 0, 0), same(49, 5), told(5, 0), told(5, 0))},
		{"submit: a dear one counts as 20 usual ones", steps(same(100, 1), told(1000), told(1, 1000), told(1))},
		{"submit: but not one of the first 100", steps(same(99, 1), told(901), told(10, 1))},
		{"submit: a cost is 1 to 100000", steps(same(100, 1), told(1e-9), told(0.0014), told(0.0016), told(90), told(150), told(1e300), told(1))},
		{"submit: what was told a thousand documents ago fades", many(11, same(100, 7), many(15, same(100, 21))...)},
		{"submit: the unit does not matter, bytes", many(2, told(manyCosts(50, 1)...), told(manyCosts(20, 2)...), told(1_048_576))},
		{"submit: nor fractions", many(2, told(manyFractions(50, 1)...), told(manyFractions(20, 2)...), told(0.1, 0.2, 0.3))},
		{"submit and done have means of their own", steps(same(100, 1), told(5), took(second), usual, took(3*second), told(5))},
		{"submit: costs of all kinds", manyTold()},
	}
}

// numbers returns numbers that no eye has chosen, but the same ones always.
func numbers(seed int64) func(below int64) int64 {
	return func(below int64) int64 {
		seed = seed * 48_271 % (1<<31 - 1) // the multiplier of C++'s minstd_rand
		return seed % below
	}
}

func manyTimes() (steps []meanStep) {
	next := numbers(1)
	for range 200 {
		n := int(1 + next(50))
		steps = append(steps, meanStep{Took: (1 + next(3000)) * int64(n), N: n, Ended: int(next(int64(n + 1)))})
	}
	return steps
}

func manyTold() (steps []meanStep) {
	next := numbers(2)
	for range 60 {
		steps = append(steps, meanStep{Costs: manyFractions(int(1+next(12)), next(1<<20))})
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
				each := fair.Each(milliseconds(step.Took), step.N)
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
