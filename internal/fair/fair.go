// Package fair makes the level of Submit: from what a customer has submitted
// lately, and from what it has pending. lua/submit.lua and lua/done.lua do the same
// with the same numbers, which are whole wherever a fraction could be rounded
// differently there.
package fair

import (
	"fmt"
	"math"
	"time"
)

const (
	// Day is how long it takes for half of what a customer has submitted to be
	// forgotten, and the longest lease.
	Day = 24 * time.Hour

	// leases is how many average sojourns a lease is long, and shortest the
	// shortest one.
	leases   = 20
	shortest = 3 * time.Minute

	// Levels is how many Submit tells apart.
	Levels = 9

	// tolerance is what reading and writing may change a usage by.
	tolerance = 1e-6
)

// LeaseOf returns the lease that an option stands for: Day for 0.
func LeaseOf(option time.Duration) (time.Duration, error) {
	switch {
	case option == 0:
		return Day, nil
	case option < time.Millisecond || option%time.Millisecond != 0 || option > Day:
		return 0, fmt.Errorf("Lease %v is not a whole number of milliseconds from 1 ms to %v", option, Day)
	}
	return option, nil
}

// Scale is what a policy makes of usage and pending documents.
type Scale struct {
	First  int64 // the usage up to which its level is 1
	Levels int   // of the policy
}

// ScaleOf returns the scale of a policy's thresholds: the first level lasts as long
// as by the rule.
func ScaleOf(thresholds []int64) Scale {
	s := Scale{First: 1, Levels: len(thresholds) + 1}
	if len(thresholds) > 0 {
		s.First = max(s.First, -thresholds[0])
	}
	return s
}

// Level returns the level of a document, given the customer's usage, how many
// documents of theirs count as pending, this one included in both, and what one
// costs in thousandths. It reports whether it is the last of the scale, with which a
// document does not count as pending for others.
func (s Scale) Level(usage float64, pending, cost int64) (level int, last bool) {
	lately, now := s.Parts(usage, pending, cost)
	level = (lately + now + 1) / 2
	return s.Of(level), level == Levels
}

// Parts returns the two levels, of Levels, that a level is the mean of.
func (s Scale) Parts(usage float64, pending, cost int64) (lately, now int) {
	first := float64(s.First)
	return doublings(usage, first*(1+tolerance)), doublings(float64(pending)*float64(cost), 2000*first)
}

// Last returns the last level.
func (s Scale) Last() int { return s.Of(Levels) }

// Of returns the policy's level for one of Levels. In a policy with fewer, floods stay
// apart from the rest: the last is one of its own, and so are the two before it.
func (s Scale) Of(level int) int {
	switch {
	case s.Levels >= Levels:
		return level
	case level == Levels:
		return s.Levels
	case level > Levels-3:
		return max(s.Levels-1, 1)
	}
	return max(1+(level-1)*(s.Levels-2)/(Levels-3), 1)
}

// doublings is 1 up to first, and 1 more for each time that first must be doubled
// to reach x, up to the last of the scale.
func doublings(x, first float64) int {
	level := 1
	for ; x > first && level < Levels; first *= 2 {
		level++
	}
	return level
}

// History is what is known of a customer. The zero History is of a new one.
type History struct {
	// Fades is when the usage, which halves each Day, comes down to one half. Then
	// the customer is forgotten.
	Fades time.Time
	// Sojourn is the average time from Submit to Done, in tenths of a second; 0: not
	// known. Documents at the last level do not count.
	Sojourn int64
	// Cost is how long the documents are worked on, in thousandths of the average of
	// all customers; 0: not known, as if it were 1000.
	Cost int64
}

// At returns the history as it is at a time.
func (h History) At(now time.Time) History {
	if !now.Before(h.Fades) {
		return History{}
	}
	return h
}

// Usage returns how many documents were submitted lately: each counts as 1, and as
// half a Day later.
func (h History) Usage(now time.Time) float64 {
	if left := h.Fades.Sub(now); left > 0 {
		return math.Exp2(float64(left.Milliseconds())/float64(Day.Milliseconds()) - 1)
	}
	return 0
}

// Used sets the usage. More than the last level takes is not remembered.
func (h *History) Used(usage float64, now time.Time, s Scale) {
	usage = min(usage, float64(256*s.First))
	left := math.Floor(float64(Day.Milliseconds())*(1+math.Log2(usage)) + 0.5)
	h.Fades = now.Add(time.Duration(left) * time.Millisecond)
}

// Lease returns how long a document counts as pending, where bound is the longest.
func (h History) Lease(bound time.Duration) time.Duration {
	if h.Sojourn == 0 {
		return bound
	}
	return min(max(leases*time.Duration(h.Sojourn)*100*time.Millisecond, shortest), bound)
}

// RelativeCost returns the cost to reckon with, in thousandths.
func (h History) RelativeCost() int64 {
	if h.Cost == 0 {
		return 1000
	}
	return h.Cost
}

// Done learns from a document that is done.
func (h *History) Done(sojourn time.Duration, last bool, cost int64) {
	if !last {
		tenths := max(int64((sojourn.Milliseconds()+50)/100), 1)
		if h.Sojourn == 0 {
			h.Sojourn = tenths
		} else {
			// One that was late must not make the others look pending for hours.
			h.Sojourn = average(h.Sojourn, min(tenths, 3*max(h.Sojourn, 90)))
		}
	}
	if cost > 0 {
		h.Cost = average(h.RelativeCost(), cost)
	}
}

// average moves an average by a tenth of the way.
func average(of, next int64) int64 { return max((9*of+next+5)/10, 1) }
