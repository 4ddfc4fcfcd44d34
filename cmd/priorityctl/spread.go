package main

import (
	"math"

	"github.com/docpriority/priority"
)

// levelSpread counts the documents of each level that made a count fall from
// one number to another, the first excluded.
func levelSpread(policy priority.Policy, from, to int64, add func(level priority.Level, documents int64)) {
	for level := policy.Level(to); from > to; level-- {
		most := min(rowOf(policy, level).most, from-1)
		add(level, most-to+1)
		to = most + 1
		if level == priority.First || most == math.MaxInt64 {
			return
		}
	}
}
