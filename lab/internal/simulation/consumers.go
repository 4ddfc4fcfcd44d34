package simulation

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

// Consumers take the first level that has work, or by weights, level 1's first: in turn as a
// queue.Picker, as in "8:4:2:1", or at random in proportion to them as asynq without
// StrictPriority, as in "random:8:4:2:1".
const random = "random:"

// consumers choose the level that is served next.
type consumers struct {
	picker  *queue.Picker
	weights []int64    // for random
	random  *rand.Rand // nil: by the picker
}

func newConsumers(discipline string, seed uint64) (c consumers, err error) {
	discipline, atRandom := strings.CutPrefix(discipline, random)
	weights, err := weightsOf(discipline)
	if err != nil {
		return c, err
	}
	if atRandom {
		c.weights, c.random = weights, rand.New(rand.NewPCG(seed, streamOfPicks))
	}
	c.picker, err = queue.NewPicker(weights...)
	return c, err
}

// weightsOf returns the weights of the levels; none are strict.
func weightsOf(discipline string) (weights []int64, err error) {
	if discipline == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(discipline, ":") {
		weight, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("weights are as in 8:4:2:1 or %s8:4:2:1, not %q", random, discipline)
		}
		weights = append(weights, weight)
	}
	return weights, nil
}

// pick returns the level to serve next, and false where nothing waits.
func (c *consumers) pick(hasWork []bool) (priority.Level, bool) {
	if c.random == nil {
		return c.picker.Pick(hasWork)
	}
	var picked priority.Level
	var total int64
	for i, has := range hasWork {
		if !has {
			continue
		}
		weight := c.weights[min(i, len(c.weights)-1)]
		if total += weight; c.random.Int64N(total) < weight {
			picked = priority.First + priority.Level(i)
		}
	}
	return picked, total > 0
}
