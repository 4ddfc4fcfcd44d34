package insight

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/docpriority/priority"
)

// mostRecent is how many of the documents submitted recently are remembered.
const mostRecent = 512

// Number is the count or the load of a customer, by the rule.
func Number(state priority.State) string {
	switch state.Rule {
	case priority.ByCount:
		return Group(state.Count)
	case priority.ByLoad:
		return decimal(state.Load)
	}
	return "-"
}

// documents is how many documents there were since the last reset, by count.
func documents(state priority.State) int64 { return 1 - state.Count }

// product writes out the load of a document that arrives now, such as
// "12.0 recent × 6 pending × 1.00 cost = 72.0".
func product(state priority.State) string {
	return fmt.Sprintf("%s recent × %s pending × %s cost = %s",
		decimal(nextRecent(state)), Group(nextPending(state)), cost(state.Cost), decimal(state.Load))
}

// nextRecent and nextPending are the factors of the load of a document that arrives now: it
// counts itself, and a flood's pending documents do not count.
func nextRecent(state priority.State) float64 { return min(state.Recent+1, mostRecent) }
func nextPending(state priority.State) int64  { return state.Pending - state.PendingFlood + 1 }

// decimal writes a load, or what was submitted recently.
func decimal(x float64) string {
	if x >= 1000 {
		return Group(int64(math.Round(x)))
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}

func cost(x float64) string {
	if x < 0.1 {
		return strconv.FormatFloat(x, 'f', 3, 64)
	}
	return strconv.FormatFloat(x, 'f', 2, 64)
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
