package simulation

import (
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// candidates are the policies that are tried for a way of counting, the default one first. None
// has more levels than that: the queue may have no more.
func candidates(counting string) (all []priority.Policy) {
	all = append(all, priority.DefaultPolicy())
	try := func(change func(*priority.Policy)) {
		p := priority.DefaultPolicy()
		change(&p)
		if p.Validate() == nil && !slices.ContainsFunc(all, func(other priority.Policy) bool { return reflect.DeepEqual(p, other) }) {
			all = append(all, p)
		}
	}
	if counting == Submit {
		for _, levels := range []int{9, 5, 4} {
			for _, times := range []float64{1. / 16, 1. / 4, 1, 4, 16} {
				try(func(p *priority.Policy) {
					p.Loads = fair.Loads(levels)
					for i := range p.Loads {
						p.Loads[i] *= times
					}
					p.Turns = len(p.Thresholds) - len(p.Loads)
				})
			}
		}
		return all
	}
	wide := priority.DefaultPolicy().Thresholds
	most := len(wide)
	for i := range wide {
		wide[i] *= 5
	}
	for _, interval := range []time.Duration{5 * time.Minute, 10 * time.Minute, 25 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour} {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			for _, table := range [][]int64{
				priority.DefaultPolicy().Thresholds, wide, growing(2, 2, most), growing(1, math.Sqrt(10), most), growing(2, 5, 4),
			} {
				try(func(p *priority.Policy) { p.Thresholds, p.ResetInterval, p.ResetMode = table, interval, mode })
			}
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
