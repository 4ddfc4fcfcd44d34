package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

// Disciplines of consumers. Beside these there are weights, level 1's first,
// as in "8,4,2,1".
const (
	Strict  = "strict"  // the first level that has work
	Linear  = "linear"  // weighted 9:8:…:1
	Halving = "halving" // weighted 256:128:…:1
	// Patience and a time, as in "patience=10m": the document that has waited
	// longest, if that is longer than this; else strict.
	Patience = "patience="
)

// consumers choose the level that is served next.
type consumers struct {
	picker   *queue.Picker
	patience time.Duration // 0: they have all the patience in the world
}

func newConsumers(discipline string, last priority.Level) (c consumers, err error) {
	if text, ok := strings.CutPrefix(discipline, Patience); ok {
		if c.patience, err = time.ParseDuration(text); err != nil || c.patience <= 0 {
			return c, fmt.Errorf("patience is a time longer than 0, as in %s10m, not %q", Patience, text)
		}
		discipline = Strict
	}
	weights, err := weightsOf(discipline, last)
	if err != nil {
		return c, err
	}
	c.picker, err = queue.NewPicker(weights...)
	return c, err
}

// weightsOf returns the weights of the levels; none are strict.
func weightsOf(discipline string, last priority.Level) (weights []int64, err error) {
	switch discipline {
	case "", Strict:
		return nil, nil
	case Linear:
		return queue.LinearWeights(last), nil
	case Halving:
		return queue.HalvingWeights(last), nil
	}
	for text := range strings.SplitSeq(discipline, ",") {
		weight, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a consumer discipline is %s, %s, %s, %s10m or weights as 8,4,2,1, not %q",
				Strict, Linear, Halving, Patience, discipline)
		}
		weights = append(weights, weight)
	}
	return weights, nil
}

// pick returns the level to serve next, and false where nothing waits.
func (c *consumers) pick(s *byLevel, now time.Duration) (priority.Level, bool) {
	if c.patience > 0 {
		if oldest := s.oldest(); oldest >= 0 && now-s.documents[s.waiting.first[oldest]].Submitted > c.patience {
			return priority.First + priority.Level(oldest), true
		}
	}
	return c.picker.Pick(s.hasWork)
}

// oldest returns the level, from 0, whose first document has waited longest, and
// -1 where none waits. Documents have their numbers in the order of arrival.
func (s *byLevel) oldest() (level int) {
	level = slices.Index(s.hasWork, true)
	for at := level + 1; level >= 0 && at < len(s.hasWork); at++ {
		if s.hasWork[at] && s.waiting.first[at] < s.waiting.first[level] {
			level = at
		}
	}
	return level
}
