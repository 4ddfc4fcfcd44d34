package insight

import (
	"fmt"
	"math"

	"github.com/docpriority/priority"
)

// Row is a row of a policy's table: the counts of one level, both included.
type Row struct {
	Level priority.Level
	Least int64 // math.MinInt64: whatever is below
	Most  int64 // math.MaxInt64: whatever is above
}

// Rows returns the table of a policy with every field filled in, from level 1 on.
func Rows(policy priority.Policy) []Row {
	all := make([]Row, policy.Last())
	for i := range all {
		all[i] = rowOf(policy, priority.First+priority.Level(i))
	}
	return all
}

func rowOf(policy priority.Policy, level priority.Level) Row {
	r := Row{level, math.MinInt64, math.MaxInt64}
	if i := int(level) - 1; i < len(policy.Thresholds) {
		r.Least = policy.Thresholds[i]
	}
	if i := int(level) - 2; i >= 0 {
		r.Most = policy.Thresholds[i] - 1
	}
	return r
}

// Condition is the row as the README's table has it, such as "count < -2". The last
// row whose condition holds gives the level.
func (r Row) Condition() string {
	switch {
	case r.Most < math.MaxInt64:
		return fmt.Sprintf("count < %d", r.Most+1)
	case r.Least > math.MinInt64:
		return fmt.Sprintf("count ≥ %d", r.Least)
	}
	return "any count"
}

// Documents says which of a new customer's documents get the level, such as "4–5".
func (r Row) Documents() string {
	// The first document has count 0, the second -1.
	first, last := max(1-r.Most, 1), 1-r.Least
	switch {
	case r.Least == math.MinInt64:
		return Group(first) + " and on"
	case last < first:
		return "none"
	case last == first:
		return Group(first)
	}
	return Group(first) + "–" + Group(last)
}

// spread counts the documents of each level that made a count fall from one number
// to another, the first excluded.
func spread(policy priority.Policy, from, to int64, add func(level priority.Level, documents int64)) {
	for level := policy.Level(to); from > to; level-- {
		most := min(rowOf(policy, level).Most, from-1)
		add(level, most-to+1)
		to = most + 1
		if level == priority.First || most == math.MaxInt64 {
			return
		}
	}
}
