package insight

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority"
)

// Band is a range of counts within which neither of two policies changes its
// level. Both ends are included.
type Band struct {
	From *int64         `json:"from"` // null: whatever is above
	To   *int64         `json:"to"`   // null: whatever is below
	A    priority.Level `json:"a"`
	B    priority.Level `json:"b"`
}

// Bands compares two policies with every field filled in, from the greatest counts
// down.
func Bands(a, b priority.Policy) []Band {
	edges := slices.Concat(a.Thresholds, b.Thresholds)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	slices.Reverse(edges)
	var all []Band
	from := (*int64)(nil)
	for _, edge := range edges {
		all = append(all, Band{from, &edge, a.Level(edge), b.Level(edge)})
		next := edge - 1
		from = &next
	}
	return append(all, Band{from, nil, a.Last(), b.Last()})
}

// Counts writes the range from the top down, as counts fall.
func (b Band) Counts() string {
	switch {
	case b.From == nil && b.To == nil:
		return "any count"
	case b.From == nil:
		return fmt.Sprintf("≥ %d", *b.To)
	case b.To == nil:
		return fmt.Sprintf("≤ %d", *b.From)
	case *b.From == *b.To:
		return fmt.Sprint(*b.To)
	}
	return fmt.Sprintf("%d to %d", *b.From, *b.To)
}
