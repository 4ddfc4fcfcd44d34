package queue

import (
	"math/bits"

	"github.com/docpriority/priority"
)

// firstTurn is the level after the last default load. From this level on, floods take turns.
const firstTurn = 6

// Class folds levels into fewer classes, for a queue with fewer priorities: it returns 1,
// served first, to classes. If there are enough classes, each level has its own, and the
// first and the last class are in use. Otherwise levels share classes in a way that suits the
// default policy. First the levels from 6 on, in which floods take turns, share the classes
// after the fifth. With fewer classes they share the last one, and the first levels share the
// first. Nine levels in four classes are 1–3, 4, 5 and 6–9.
//
// A policy that sets Loads should have as many levels as the queue has priorities.
func Class(level, last, classes priority.Level) priority.Level {
	level, last, classes = clamp(level, last), max(last, 1), max(classes, 1)
	switch {
	case classes >= last:
		if last == 1 {
			return 1
		}
		return 1 + mulDiv(level-1, classes-1, last-1)
	case classes <= firstTurn:
		return max(1, classes-min(last, firstTurn)+min(level, firstTurn))
	case level < firstTurn:
		return level
	}
	return firstTurn + mulDiv(level-firstTurn, classes-firstTurn+1, last-firstTurn+1)
}

// mulDiv returns a·b/c in 128 bits, because the numbers may be of any size.
func mulDiv(a, b, c priority.Level) priority.Level {
	high, low := bits.Mul64(uint64(a), uint64(b))
	quotient, _ := bits.Div64(high, low, uint64(c))
	return priority.Level(quotient)
}

func clamp(level, last priority.Level) priority.Level {
	return max(1, min(level, last))
}
