package vectors_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/vectors"
)

// comparedCases are the cases of costs.json, without what is sent.
func comparedCases() []vectors.CostCase {
	steps := func(steps ...vectors.CostStep) []vectors.CostStep { return steps }
	told := func(customer string, costs ...float64) vectors.CostStep {
		return vectors.CostStep{Customer: customer, Costs: costs}
	}
	took := func(customer string, took int64) vectors.CostStep {
		return vectors.CostStep{Customer: customer, Took: took, N: 1, Ended: 1}
	}
	// Three customers are known.
	usual := steps(told("a", 1), told("b", 1), told("c", 1))
	worked := steps(took("a", second), took("b", second), took("c", second))
	next := numbers(1)
	var many, crowd []vectors.CostStep
	for range 60 {
		many = append(many, told(fmt.Sprint(next(9)), float64(1+next(10_000_000))/1000, float64(1+next(10_000_000))/1000))
	}
	for n := range 1003 {
		crowd = append(crowd, told(fmt.Sprint(n), float64(n+1)))
	}
	return []vectors.CostCase{
		{Name: "submit: with the third customer the median is known", Steps: steps(told("a", 1, 1), told("a", 1), told("b", 2), told("b", 2), told("c", 4), told("d", 4, 8))},
		{Name: "submit: costs are compared with those before the call", Steps: append(slices.Clone(usual), told("a", 8, 8, 8), told("b", 8, 8, 8), told("c", 8), told("c", 8, 8), told("d", 8))},
		{Name: "submit: a customer has the median of their last three documents", Steps: append(slices.Clone(usual),
			told("a", 5), told("b", 5), told("c", 5), told("c", 1), told("b", 1, 9), told("a", 5), told("a", 7), told("a", 2))},
		{Name: "submit: of an even number of customers, the upper one of the middle two decides", Steps: steps(told("a", 1), told("b", 2), told("c", 3), told("d", 4), told("e", 6), told("a", 6))},
		{Name: "submit: 0 is not known", Steps: append(slices.Clone(usual), told("a", 0), told("d", 0, 5), told("d", 5))},
		{Name: "submit: a wild cost changes its own document", Steps: append(slices.Clone(usual), told("a", 1e9), told("a", 1), told("b", 1), told("d", 1e-300), told("b", 1))},
		{Name: "submit: a cost is 1 to 100000", Steps: append(slices.Clone(usual), told("a", 1e-9), told("a", .0014, .0016, 150, 1e300, 1))},
		{Name: "submit: a thousand customers are compared, and those who came first are forgotten", Steps: append(crowd, told("0", 502), told("1", 502))},
		{Name: "submit: costs of all kinds", Steps: many},
		{Name: "done: with the third customer the median is known", Steps: append(slices.Clone(worked), took("d", 3*second), took("e", 3*second))},
		{Name: "done: nothing is known of what took no time", Steps: append(slices.Clone(worked), took("d", 0), took("d", second), took("e", second))},
		{Name: "done: documents that were not pending are not learned from", Steps: append(slices.Clone(worked),
			vectors.CostStep{Customer: "a", Took: 300 * second, N: 10}, vectors.CostStep{Customer: "b", Took: 300 * second, N: 10, Ended: 4},
			vectors.CostStep{Customer: "c", Took: 300 * second, N: 10, Ended: 2}, took("a", second))},
		{Name: "done: it took a day at most", Steps: steps(took("a", 30*day), took("b", 20*day), took("c", 10*day), took("d", day/2), took("d", 1), took("d", 30*day))},
		{Name: "submit and done are compared separately", Steps: slices.Concat(usual, worked[:2], steps(took("c", second), told("d", 5), took("d", 3*second)))},
	}
}

// costs.json is what fair.Costs comes to.
func TestCosts(t *testing.T) {
	cases := comparedCases()
	for _, c := range cases {
		var told, took fair.Costs
		for i := range c.Steps {
			step := &c.Steps[i]
			step.Sent = nil
			if step.Costs == nil {
				each := fair.Each(vectors.Milliseconds(step.Took), step.N)
				step.Sent = []int64{took.Relative(each)}
				for range step.Ended {
					took.Add(step.Customer, each)
				}
				continue
			}
			for _, cost := range step.Costs {
				step.Sent = append(step.Sent, told.Relative(cost))
			}
			for _, cost := range step.Costs {
				told.Add(step.Customer, cost)
			}
		}
	}
	compare(t, "costs.json", asFile(t, "cases", cases))
}

// load.json is what package fair comes to; README.md describes its lists.
func TestLoad(t *testing.T) {
	var recent, left [][2]int64
	var loads [][4]int64
	var turns [][3]int64
	now, next := time.UnixMilli(0), numbers(3)
	of := func(submitted, pending, cost int64) {
		loads = append(loads, [4]int64{submitted, pending, cost, fair.Load(submitted, pending, cost)})
	}
	for _, ttl := range []int64{1, day / 2, day - 1, day, day + 1, 10*day - 1, 10 * day, 10*day + 1} {
		recent = append(recent, [2]int64{ttl, fair.History{Fades: now.Add(vectors.Milliseconds(ttl))}.Recent(now)})
	}
	for range 20 {
		ttl, submitted := 1+next(10*day), 1000+next(511_001)
		recent = append(recent, [2]int64{ttl, fair.History{Fades: now.Add(vectors.Milliseconds(ttl))}.Recent(now)})
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
	compare(t, "load.json", asFile(t, "recent", recent, "left", left, "loads", loads, "turns", turns))
}

// numbers returns numbers that no eye has chosen, but the same ones always.
func numbers(seed int64) func(below int64) int64 {
	return func(below int64) int64 {
		seed = seed * 48_271 % (1<<31 - 1) // the multiplier of C++'s minstd_rand
		return seed % below
	}
}
