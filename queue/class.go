package queue

import (
	"math/bits"

	"github.com/docpriority/priority"
)

// Class folds levels into fewer classes, for a queue that has not as many: it
// returns 1, served first, to classes. Where there are enough classes, each level
// has its own, and the first and the last are in use. Where there are not, the
// last level, which is where a flood ends, keeps the last class to itself, and
// the others share the rest as evenly as they can.
//
// Nine levels in four classes are 1–3, 4–6, 7–8 and 9.
func Class(level, last, classes priority.Level) priority.Level {
	level, last, classes = clamp(level, last), max(last, 1), max(classes, 1)
	if last == 1 {
		return 1
	}
	// (level-1)·(classes-1)/(last-1), in 128 bits: these may be any numbers.
	high, low := bits.Mul64(uint64(level-1), uint64(classes-1))
	class, _ := bits.Div64(high, low, uint64(last-1))
	return 1 + priority.Level(class)
}

func clamp(level, last priority.Level) priority.Level {
	return max(1, min(level, last))
}
