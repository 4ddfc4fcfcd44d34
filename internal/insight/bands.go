package insight

import (
	"fmt"
	"maps"
	"slices"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Band is a range of counts within which neither of two policies changes its
// level. Both ends are included.
type Band struct {
	From *int64         `json:"from"` // null: whatever is above
	To   *int64         `json:"to"`   // null: whatever is below
	A    priority.Level `json:"a"`
	B    priority.Level `json:"b"`

	// Change is what B does to the order of this band and the one above.
	Change Change `json:"change,omitempty"`
}

// Change is what becomes of the order of two bands. Empty: it stays.
type Change string

// By A they have two levels, and by B one; or by A one, and by B two. No policy
// reverses the order of two counts.
const (
	Merged Change = "merged"
	Split  Change = "split"
)

// Bands compares two policies with every field filled in, from the greatest counts
// down.
func Bands(a, b priority.Policy) []Band {
	edges := slices.Concat(a.Thresholds, b.Thresholds)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	slices.Reverse(edges)
	var all []Band
	add := func(band Band) {
		if len(all) > 0 {
			switch above := all[len(all)-1]; {
			case band.B == above.B:
				band.Change = Merged
			case band.A == above.A:
				band.Change = Split
			}
		}
		all = append(all, band)
	}
	from := (*int64)(nil)
	for _, edge := range edges {
		add(Band{From: from, To: &edge, A: a.Level(edge), B: b.Level(edge)})
		next := edge - 1
		from = &next
	}
	add(Band{From: from, A: a.Last(), B: b.Last()})
	return all
}

// Reverses reports whether of two customers of different tiers, the one who goes first
// by a may go last by b.
func Reverses(a, b control.Rules) bool {
	var o order
	for _, tier := range TiersOf(a, b) {
		for _, band := range Bands(PolicyOfTier(a, tier), PolicyOfTier(b, tier)) {
			o.add(band.A, band.B)
		}
	}
	_, pairs := o.shifts()
	return pairs.Reversed > 0
}

// TiersOf names the tiers that any of the rules has a policy for, after "", which
// stands for customers without a tier.
func TiersOf(all ...control.Rules) []string {
	names := map[string]bool{"": true}
	for _, rules := range all {
		for tier := range rules.Tiers {
			names[tier] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// PolicyOfTier returns the policy of a tier, which is the one of customers without a
// tier where it has none of its own.
func PolicyOfTier(rules control.Rules, tier string) priority.Policy {
	if policy, ok := rules.Tiers[tier]; ok {
		return policy
	}
	return rules.Policy
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
