package queue

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority"
)

// Picker chooses, for a consumer that polls one queue a level, the level to serve next. The
// zero Picker is strict: always the first level that has work, however long the others
// wait. With weights, the levels that have work take turns by smooth weighted round robin.
// Strict levels score best: docs/rules.md says what weights cost.
//
// A level that has work waits for at most 2·W/w picks: w is its weight and W the
// sum of all weights. A Picker is deterministic. It is not safe for concurrent use.
type Picker struct {
	weights []int64
	credits []int64 // by level; the level with the most is served, and pays for all levels that have work
}

// NewPicker returns a Picker with a weight for each level, weights[0] for level 1,
// each from 1 to 2^32; without weights it is strict. An error wraps
// [priority.ErrInvalid].
func NewPicker(weights ...int64) (*Picker, error) {
	for i, weight := range weights {
		if weight < 1 || weight > 1<<32 {
			return nil, fmt.Errorf("%w option: the weight of level %d, %d, is not from 1 to 2^32", priority.ErrInvalid, i+1, weight)
		}
	}
	return &Picker{weights: slices.Clone(weights)}, nil
}

// Pick returns the level to serve next, or false if no level has work. hasWork[0]
// says whether level 1 has work. A level beyond the weights has the last weight.
func (p *Picker) Pick(hasWork []bool) (priority.Level, bool) {
	if len(p.weights) == 0 {
		first := slices.Index(hasWork, true)
		return priority.Level(first + 1), first >= 0
	}
	for len(p.credits) < len(hasWork) {
		p.credits = append(p.credits, 0)
	}
	picked := -1
	var total int64
	for i, has := range hasWork {
		if !has {
			continue
		}
		weight := p.weights[min(i, len(p.weights)-1)]
		total += weight
		p.credits[i] += weight
		if picked < 0 || p.credits[i] > p.credits[picked] {
			picked = i
		}
	}
	if picked < 0 {
		return 0, false
	}
	p.credits[picked] -= total
	return priority.Level(picked + 1), true
}
