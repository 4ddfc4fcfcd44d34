package ledger

import (
	"cmp"
	"slices"
)

// counts is the counts that a customer's documents were answered with. Answers
// leave few gaps, so it keeps ranges: its size depends on the gaps, not on the
// documents.
type counts struct {
	spans    []span // descending, with a gap between any two
	repeated int    // how often a count was added that was there already
}

// span is the counts from first down to last.
type span struct{ first, last int64 }

// add adds one count.
func (c *counts) add(count int64) {
	// The spans before at lie above count with a gap between.
	at, _ := slices.BinarySearchFunc(c.spans, count, func(s span, count int64) int {
		return cmp.Compare(count, s.last-1)
	})
	switch {
	case at == len(c.spans) || c.spans[at].first < count-1:
		c.spans = slices.Insert(c.spans, at, span{count, count})
	case c.spans[at].first == count-1:
		c.spans[at].first = count
	case c.spans[at].last <= count:
		c.repeated++
	default:
		c.spans[at].last = count
		if next := at + 1; next < len(c.spans) && c.spans[next].first == count-1 {
			c.spans[at].last = c.spans[next].last
			c.spans = slices.Delete(c.spans, next, next+1)
		}
	}
}
