package vectors_test

import (
	"testing"

	"github.com/docpriority/priority/internal/fair"
)

// The format of mean.json; README.md describes it.
type (
	meanCase struct {
		Name  string   `json:"name"`
		Steps []doneOf `json:"steps"`
	}
	doneOf struct {
		Took int64 `json:"took_ms"` // of all n documents together
		N    int   `json:"n"`
		Done int   `json:"done"` // how many of them were pending, as Redis answers
		Cost int64 `json:"cost"` // that is sent with them
	}
)

// meanCases are those of mean.json, without their costs.
func meanCases() []meanCase {
	usual := doneOf{Took: 100 * second, N: 100, Done: 100} // a second each
	steps := func(steps ...doneOf) []doneOf { return steps }
	many := func(n int, step doneOf, then ...doneOf) (all []doneOf) {
		for range n {
			all = append(all, step)
		}
		return append(all, then...)
	}
	one := func(took int64) doneOf { return doneOf{Took: took, N: 1, Done: 1} }
	return []meanCase{
		{"no cost is known before 100 documents were done", many(100, one(second), one(second), one(2*second))},
		{"a document that is the 100th has none yet", steps(doneOf{Took: 99 * second, N: 99, Done: 99}, one(second), one(second))},
		{"a cost is told by those before", steps(usual, one(4*second), one(4*second), one(4*second))},
		{"nothing is known of what took no time", steps(usual, one(0), one(second), doneOf{N: 100, Done: 100}, one(second))},
		{"what was not pending is not added", steps(usual, doneOf{Took: 30 * second, N: 10}, one(second),
			doneOf{Took: 30 * second, N: 10, Done: 4}, one(second))},
		{"what was not pending is not one of the first 100", steps(doneOf{Took: 100 * second, N: 100, Done: 99}, one(second), one(second))},
		{"a call weighs as 100 documents at most", steps(usual, doneOf{Took: 3000 * second, N: 1000, Done: 1000}, one(second),
			doneOf{Took: 3000 * second, N: 1000, Done: 70}, one(second))},
		{"what was done a thousand documents ago fades", many(10, usual, many(30, doneOf{Took: 200 * second, N: 100, Done: 100})...)},
		{"one that stood still counts as 20 usual ones", steps(usual, one(hour), one(second), one(hour), one(second))},
		{"one of the first that stood still counts as a day", many(99, one(second), one(4*day), one(second), one(day))},
		{"a cost is 1 to 100000", steps(doneOf{Took: 400_000 * second, N: 100, Done: 100}, one(1), one(9), one(hour), one(400_000*second),
			one(400_006*second), one(30*365*day), usual, one(second))},
		{"times of all kinds", manyKinds()},
	}
}

// manyKinds are times and numbers that no eye has chosen, but the same ones always.
func manyKinds() (steps []doneOf) {
	random := int64(1)
	next := func(below int64) int64 {
		random = random * 48_271 % (1<<31 - 1) // the multiplier of C++'s minstd_rand
		return random % below
	}
	for range 200 {
		n := int(1 + next(50))
		steps = append(steps, doneOf{Took: (1 + next(3000)) * int64(n), N: n, Done: int(next(int64(n + 1)))})
	}
	return steps
}

// mean.json is what a fair.Mean comes to.
func TestMeanVectors(t *testing.T) {
	t.Parallel()
	cases := meanCases()
	for _, c := range cases {
		var mean fair.Mean
		for i := range c.Steps {
			step := &c.Steps[i]
			step.Cost = mean.Relative(milliseconds(step.Took), step.N)
			mean.Add(milliseconds(step.Took), step.N, step.Done)
		}
	}
	compare(t, "mean.json", asFile(t, "cases", cases))
}
