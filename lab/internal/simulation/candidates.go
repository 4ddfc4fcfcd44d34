package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// candidates are the policies that are tried for a way of counting, besides the
// present one, whose fields are filled in. None has more levels than that: the queue may have
// no more.
func candidates(counting string, present priority.Policy) []priority.Policy {
	if counting == Submit {
		return without(tables(present), present)
	}
	var all []priority.Policy
	intervals := []time.Duration{5 * time.Minute, 10 * time.Minute, 25 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour}
	if !slices.Contains(intervals, present.ResetInterval) {
		intervals = append(intervals, present.ResetInterval)
	}
	wide := slices.Clone(present.Thresholds)
	for i := range wide {
		wide[i] *= 5
	}
	most := len(present.Thresholds)
	thresholds := [][]int64{
		present.Thresholds,
		wide,
		growing(2, 2, most),
		growing(1, math.Sqrt(10), most),
		growing(2, 5, min(most, 4)),
	}
	for _, interval := range intervals {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			for _, table := range thresholds {
				policy := present
				policy.Thresholds, policy.ResetInterval, policy.ResetMode = table, interval, mode
				all = append(all, policy)
			}
		}
	}
	return without(all, present)
}

// tables are policies with other loads: the present table and the default ones of fewer
// levels, shifted, each with the levels that are left over to take turns in.
func tables(present priority.Policy) (all []priority.Policy) {
	loads := [][]float64{present.Loads}
	for _, levels := range []int{9, 5, 4} {
		loads = append(loads, fair.Loads(min(levels, int(present.Last()))))
	}
	for _, table := range loads {
		for _, times := range []float64{1. / 16, 1. / 4, 1, 4, 16} {
			policy := present
			policy.Loads = make([]float64, len(table))
			for i, load := range table {
				policy.Loads[i] = times * load
			}
			policy.Turns = int(present.Last()) - 1 - len(table)
			all = append(all, policy)
		}
	}
	return all
}

// growing returns so many thresholds, or fewer: each is so many times the one
// before it, to a hundred million, which no customer submits.
func growing(first, times float64, most int) []int64 {
	thresholds := []int64{}
	for value := first; len(thresholds) < most && value < 1e8; value *= times {
		thresholds = append(thresholds, -int64(math.Round(value)))
	}
	return thresholds
}

// without leaves out what is the present policy or there twice, and policies that the module
// refuses.
func without(candidates []priority.Policy, present priority.Policy) (others []priority.Policy) {
	for _, p := range candidates {
		same := func(other priority.Policy) bool { return samePolicy(p, other) }
		if p.Validate() == nil && !same(present) && !slices.ContainsFunc(others, same) {
			others = append(others, p)
		}
	}
	return others
}

func samePolicy(a, b priority.Policy) bool {
	return slices.Equal(a.Thresholds, b.Thresholds) && a.ResetInterval == b.ResetInterval && a.ResetMode == b.ResetMode &&
		slices.Equal(a.Loads, b.Loads) && a.Turns == b.Turns
}
