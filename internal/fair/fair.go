// Package fair computes a document's load from what its customer has submitted lately
// and has pending. lua/submit.lua, done.lua and peek.lua do the same with the same whole
// numbers: thousandths of documents and costs, millionths of loads.
package fair

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
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

	// mostLately is how many documents are remembered of those submitted lately, in
	// thousandths.
	mostLately = 512_000

	// MaxLoad is the highest load.
	MaxLoad = 1e9
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

// defaultLoads are the loads of nine levels.
var defaultLoads = []float64{2, 8, 32, 128, 512, 2048, 8192, 32768}

// Loads returns the default loads of so many levels, or of nine if there are more. With
// fewer, floods stay apart from those who send all day: the last two loads stay, and the
// levels below them are joined.
func Loads(levels int) []float64 {
	most := len(defaultLoads)
	if levels > most {
		return defaultLoads
	}
	loads, joined := slices.Clone(defaultLoads[most-min(max(levels-1, 0), 2):]), levels-2
	for i := joined - 1; i > 0; i-- {
		// Joined into so many, levels 1 to 7 end evenly spaced.
		end := (2*(most-1)*i + joined) / (2 * joined)
		loads = slices.Insert(loads, 0, defaultLoads[end-1])
	}
	return loads
}

// Load returns a document's load in millionths, from what was submitted lately and the
// document's cost, both in thousandths, and the number of pending documents. All include
// the document.
func Load(lately, pending, cost int64) int64 {
	return int64(min(float64(min(lately, mostLately)*pending)*float64(cost), MaxLoad*1e6))
}

// Millionths returns a load in millionths.
func Millionths(load float64) int64 { return int64(math.Round(min(load, MaxLoad) * 1e6)) }

// Turn returns which of the turns behind the last load a document takes, from 0, where
// so many documents of its customer are pending there, this one included.
func Turn(beyond int64, turns int) int { return min(bits.Len64(uint64(beyond))-1, turns) }

// History is what is known of a customer. The zero History is of a new one.
type History struct {
	// Fades is when what was submitted lately, which halves each Day, is half a document. Then
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
	if now.After(h.Fades) {
		return History{}
	}
	return h
}

// Lately returns how many documents were submitted lately, in thousandths: each counts as
// 1, and as half a Day later.
func (h History) Lately(now time.Time) int64 {
	left := h.Fades.Sub(now).Milliseconds()
	if left <= 0 {
		return 0
	}
	return int64(min(math.Floor(1000*math.Exp2(float64(left)/float64(Day.Milliseconds())-1)+0.5), mostLately))
}

// Submitted sets what was submitted lately, in thousandths.
func (h *History) Submitted(lately int64, now time.Time) {
	days := 1 + math.Log2(float64(min(lately, mostLately))/1000)
	h.Fades = now.Add(time.Duration(math.Floor(float64(Day.Milliseconds())*days+0.5)) * time.Millisecond)
}

// Lease returns how long a document counts as pending, where bound is the longest.
func (h History) Lease(bound time.Duration) time.Duration {
	if h.Sojourn == 0 {
		return bound
	}
	return min(max(leases*time.Duration(h.Sojourn)*100*time.Millisecond, shortest), bound)
}

// Average returns what the customer's documents cost, in thousandths.
func (h History) Average() int64 {
	if h.Cost == 0 {
		return 1000
	}
	return h.Cost
}

// Done learns from a document that is done; beyond: it was beyond the last load.
func (h *History) Done(sojourn time.Duration, beyond bool, cost int64) {
	if !beyond {
		tenths := max(int64((sojourn.Milliseconds()+50)/100), 1)
		if h.Sojourn == 0 {
			h.Sojourn = tenths
		} else {
			// One that was late must not make the others look pending for hours.
			h.Sojourn = average(h.Sojourn, min(tenths, 3*max(h.Sojourn, 90)))
		}
	}
	if cost > 0 {
		h.Cost = average(h.Average(), cost)
	}
}

// average moves an average by a tenth of the way.
func average(of, next int64) int64 { return max((9*of+next+5)/10, 1) }
