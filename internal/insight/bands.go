package insight

import (
	"fmt"
	"maps"
	"slices"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Band is a range of counts, or of loads, within which neither of two policies changes
// its level.
type Band struct {
	From  *float64       `json:"from"` // null: the range has no beginning
	To    *float64       `json:"to"`   // included; null: it has no end
	A     priority.Level `json:"a"`
	B     priority.Level `json:"b"`
	Range string         `json:"-"` // the two in words

	// Change is what B does to the order of this band and the one above.
	Change Change `json:"change,omitempty"`
}

// Change is what happens to the order of two bands. Empty: it stays.
type Change string

// Merged: by A they have two levels, by B one level. Split: the reverse. No policy
// reverses the order of two counts, or of two loads.
const (
	Merged Change = "merged"
	Split  Change = "split"
)

// CountBands compares two policies with every field filled in by count, from the greatest
// counts down. Both ends of a band are included.
func CountBands(a, b priority.Policy) []Band {
	edges := slices.Concat(a.Thresholds, b.Thresholds)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	slices.Reverse(edges)
	var all []Band
	from := (*float64)(nil)
	end := func(count int64) *float64 { end := float64(count); return &end }
	for i, edge := range edges {
		text := fmt.Sprint(edge)
		switch {
		case i == 0:
			text = fmt.Sprintf("≥ %d", edge)
		case edges[i-1]-1 > edge:
			text = fmt.Sprintf("%d to %d", edges[i-1]-1, edge)
		}
		all = append(all, Band{From: from, To: end(edge), A: a.Level(edge), B: b.Level(edge), Range: text})
		from = end(edge - 1)
	}
	last := Band{From: from, A: priority.First, B: priority.First, Range: "any count"}
	if n := len(edges); n > 0 {
		last.A, last.B, last.Range = a.Level(edges[n-1]-1), b.Level(edges[n-1]-1), fmt.Sprintf("≤ %d", edges[n-1]-1)
	}
	return compared(append(all, last))
}

// LoadBands is the same by load, from the least loads up. A band does not include
// its beginning. Turns are left out: the last band has the first level beyond the last load.
func LoadBands(a, b priority.Policy) []Band {
	edges := slices.Concat(a.Loads, b.Loads)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	var all []Band
	from := (*float64)(nil)
	for i, edge := range edges {
		text := "≤ " + bound(edge)
		if i > 0 {
			text = fmt.Sprintf("> %s to %s", bound(edges[i-1]), bound(edge))
		}
		all = append(all, Band{From: from, To: &edge, A: a.LevelOfLoad(edge), B: b.LevelOfLoad(edge), Range: text})
		from = &edge
	}
	last := Band{From: from, A: priority.First + priority.Level(len(a.Loads)), B: priority.First + priority.Level(len(b.Loads)), Range: "any load"}
	if n := len(edges); n > 0 {
		last.Range = "> " + bound(edges[n-1])
	}
	return compared(append(all, last))
}

// compared fills in what happens to the order of neighbors.
func compared(bands []Band) []Band {
	for i := 1; i < len(bands); i++ {
		switch band, above := &bands[i], &bands[i-1]; {
		case band.B == above.B && band.A != above.A:
			band.Change = Merged
		case band.A == above.A && band.B != above.B:
			band.Change = Split
		}
	}
	return bands
}

// Reverses reports whether b may reverse the order of two customers of different tiers
// who are counted by the same rule.
func Reverses(a, b control.Rules) bool {
	for _, bands := range []func(a, b priority.Policy) []Band{CountBands, LoadBands} {
		var o order
		for _, tier := range TiersOf(a, b) {
			for _, band := range bands(PolicyOfTier(a, tier), PolicyOfTier(b, tier)) {
				o.add(band.A, band.B)
			}
		}
		if _, pairs := o.shifts(); pairs.Reversed > 0 {
			return true
		}
	}
	return false
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

// PolicyOfTier returns the policy of a tier, which is the default policy if the tier
// has no policy of its own.
func PolicyOfTier(rules control.Rules, tier string) priority.Policy {
	if policy, ok := rules.Tiers[tier]; ok {
		return policy
	}
	return rules.Policy
}
