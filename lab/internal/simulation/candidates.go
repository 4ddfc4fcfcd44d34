package simulation

import (
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// candidates are the policies that are tried for a way of counting, besides the
// present one. None has more levels than that: the queue may have no more.
func candidates(counting string, present priority.Policy) []priority.Policy {
	var all []priority.Policy
	if counting == Submit {
		// Submit's level depends on the first threshold and on the number of levels.
		for _, first := range []int64{1, 2, 4, 8, 16, 32} {
			policy := present
			policy.Thresholds = growing(float64(first), 2, len(present.Thresholds))
			if len(present.Thresholds) > 0 && present.Thresholds[0] != -first {
				all = append(all, policy)
			}
		}
		return without(all, present)
	}
	intervals := []time.Duration{5 * time.Minute, 10 * time.Minute, 25 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour}
	if !slices.Contains(intervals, present.ResetInterval) {
		intervals = append(intervals, present.ResetInterval)
	}
	wide := slices.Clone(present.Thresholds)
	for i := range wide {
		wide[i] *= 5
	}
	most := len(present.Thresholds)
	tables := [][]int64{
		present.Thresholds,
		wide,
		growing(2, 2, most),
		growing(1, math.Sqrt(10), most),
		growing(2, 5, min(most, 4)),
	}
	for _, interval := range intervals {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			for _, table := range tables {
				all = append(all, priority.Policy{Thresholds: table, ResetInterval: interval, ResetMode: mode})
			}
		}
	}
	return without(all, present)
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

// without leaves out what is the present policy, and policies that the module
// refuses.
func without(candidates []priority.Policy, present priority.Policy) []priority.Policy {
	return slices.DeleteFunc(candidates, func(p priority.Policy) bool {
		return p.Validate() != nil || samePolicy(p, present)
	})
}

func samePolicy(a, b priority.Policy) bool {
	return slices.Equal(a.Thresholds, b.Thresholds) && a.ResetInterval == b.ResetInterval && a.ResetMode == b.ResetMode
}
