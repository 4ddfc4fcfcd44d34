package queue

import (
	"math/bits"

	"github.com/docpriority/priority"
)

// Class folds levels into fewer classes, for a queue with fewer priorities: it returns
// 1, served first, to classes. If there are enough classes, each level has its own, and
// the first and the last class are in use. Otherwise the last level, where floods end,
// keeps the last class to itself, the level before it keeps the class before that, and
// the other levels share the rest as evenly as they can. A policy with fewer levels
// joins them in the same way.
//
// Turns need a queue with a priority for each level: if turns share a class, so do the
// levels before them. Nine levels in four classes are 1–4, 5–7, 8 and 9.
func Class(level, last, classes priority.Level) priority.Level {
	level, last, classes = clamp(level, last), max(last, 1), max(classes, 1)
	if classes >= last {
		if last == 1 {
			return 1
		}
		quotient, _ := divided(level-1, classes-1, last-1)
		return 1 + quotient
	}
	alone := min(classes-1, 2)
	joined, into := last-alone, classes-alone
	if level > joined {
		return into + level - joined
	}
	// As the mean of (level-1)·into/joined and level·into/joined, rounded up.
	quotient, rest := divided(2*level-1, into, 2*joined)
	if rest > 0 {
		quotient++
	}
	return quotient
}

// divided returns a·b/c and the remainder, in 128 bits, as the numbers may be of any
// size.
func divided(a, b, c priority.Level) (quotient priority.Level, rest uint64) {
	high, low := bits.Mul64(uint64(a), uint64(b))
	q, rest := bits.Div64(high, low, uint64(c))
	return priority.Level(q), rest
}

func clamp(level, last priority.Level) priority.Level {
	return max(1, min(level, last))
}
