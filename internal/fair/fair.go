// Package fair computes a document's load from what its customer has submitted recently
// and has pending. lua/submit.lua does the same with the same whole numbers: thousandths of
// documents and costs, millionths of loads.
package fair

import (
	"math"
	"slices"
	"sort"
	"time"
)

const (
	// Day is how long it takes for half of what a customer has submitted to be
	// forgotten, and the longest lease.
	Day = 24 * time.Hour

	// MostRecent is how many documents are remembered of those submitted recently, in
	// thousandths.
	MostRecent = 512_000

	// MaxLoad is the highest load.
	MaxLoad = 1e9
)

// loads are the default table of six or more levels.
var loads = []float64{8, 64, 512, 8192, 32768}

// Loads returns the default loads of so many levels. The last two are the last to go: they
// keep floods apart from those who send all day.
func Loads(levels int) []float64 {
	switch {
	case levels > len(loads):
		return slices.Clone(loads)
	case levels == 5:
		return []float64{8, 512, 8192, 32768}
	case levels == 4:
		return []float64{128, 8192, 32768}
	}
	return slices.Clone(loads[len(loads)-max(levels-1, 0):])
}

// Load returns a document's load in millionths, from what was submitted recently and the
// document's cost, both in thousandths, and the number of pending documents. All include
// the document.
func Load(recent, pending, cost int64) int64 {
	return int64(min(float64(min(recent, MostRecent)*pending)*float64(cost), MaxLoad*1e6))
}

// Millionths returns a load in millionths.
func Millionths(load float64) int64 { return int64(math.Round(min(load, MaxLoad) * 1e6)) }

// Turns returns where each of the turns beyond the last load begins: turn k of n at
// ⌈4096^(k/n)⌉ of a customer's documents that are pending there. Earlier ones have the
// level beyond the last load.
func Turns(n int) []int64 {
	begins := make([]int64, n)
	for i := range begins {
		begins[i] = begin(i+1, n)
	}
	return begins
}

// begin returns ⌈4096^(turn/turns)⌉: a power of two, which Exp2 returns exactly, or far
// enough from an integer.
func begin(turn, turns int) int64 {
	return int64(math.Ceil(math.Exp2(float64(12*turn) / float64(turns))))
}

// Turn returns the turn of a document, 0 if it is before the first one. pendingFlood is how many
// of its customer's documents are pending beyond the last load, this one included.
func Turn(pendingFlood int64, turns int) int {
	return sort.Search(turns, func(i int) bool { return begin(i+1, turns) > pendingFlood })
}

// History is what is known of a customer. The zero History is of a new one.
type History struct {
	// Fades is when the recent documents, which halve each Day, are down to half a document.
	// Then the customer is forgotten.
	Fades time.Time
	// Latency is the average time until Done, in tenths of a second; 0: not
	// known. Documents beyond the last load do not count.
	Latency int64
	// Cost is how long the documents are worked on, in thousandths of what is usual; 0: not
	// known, as if it were 1000.
	Cost int64
	// Lost is a time: documents before the last load that were due before it are presumed lost.
	Lost time.Time
}

// At returns the history as it is at a time.
func (h History) At(now time.Time) History {
	if now.After(h.Fades) {
		return History{Lost: h.Lost}
	}
	return h
}

// Recent returns how many documents were submitted recently, in thousandths: each counts 1,
// and half of it a Day later.
func (h History) Recent(now time.Time) int64 {
	left := h.Fades.Sub(now).Milliseconds()
	if left <= 0 {
		return 0
	}
	return int64(min(math.Floor(1000*math.Exp2(float64(left)/float64(Day.Milliseconds())-1)+0.5), MostRecent))
}

// Submitted sets what was submitted recently, in thousandths. What was learned before it has faded
// is forgotten.
func (h *History) Submitted(recent int64, now time.Time) {
	*h = h.At(now)
	h.Fades = now
	if recent > 0 {
		days := 1 + math.Log2(float64(min(recent, MostRecent))/1000)
		h.Fades = now.Add(max(time.Duration(math.Floor(float64(Day.Milliseconds())*days+0.5)), 0) * time.Millisecond)
	}
}

// Average returns what the customer's documents cost, in thousandths.
func (h History) Average() int64 {
	if h.Cost == 0 {
		return 1000
	}
	return h.Cost
}

// Done learns from a document that is done. How long a flood's documents wait does not count.
func (h *History) Done(now time.Time, latency time.Duration, isFlood bool, cost int64) {
	if !isFlood {
		tenths := max(int64((latency.Milliseconds()+50)/100), 1)
		if h.Latency == 0 {
			h.Latency = tenths
		} else {
			// One that was late must not make the others look pending for hours.
			before := *h
			h.Latency = average(h.Latency, min(tenths, 3*max(h.Latency, 90)))
			if lost := before.Since(now, math.MaxInt64); h.Since(now, math.MaxInt64).Before(lost) {
				h.Lost = lost // what was presumed lost does not come back
			}
		}
	}
	if cost > 0 {
		// One outlier must not make the next ones expensive.
		h.Cost = average(h.Average(), min(cost, 8*max(h.Average(), 1000)))
	}
}

// average moves an average by a tenth of the way.
func average(before, next int64) int64 { return max((9*before+next+5)/10, 1) }
