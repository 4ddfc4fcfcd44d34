package insight

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
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

// Better says when the next level by load gets better. What is 0 is not enough by itself.
type Better struct {
	FewerPending int64          `json:"fewer_pending"` // how many fewer pending documents it takes
	FewerLevel   priority.Level `json:"fewer_level"`
	FadedInMS    int64          `json:"faded_in_ms"` // how long nothing more may be submitted
	FadedLevel   priority.Level `json:"faded_level"`
}

// betterOf finds out when the level of a customer's next document gets better.
func betterOf(policy priority.Policy, state priority.State) (b Better) {
	if state.Rule != priority.ByLoad {
		return b
	}
	level := func(recent float64, pending int64) priority.Level {
		load := fair.Load(int64(math.Round(1000*recent)), pending, int64(math.Round(1000*state.Cost)))
		level, _ := levelOf(policy, state, float64(load)/1e6)
		return level
	}
	recent, pending := nextRecent(state), nextPending(state)
	if policy.InOrder && level(recent, pending) < state.RuleLevel { // the newest pending document decides
		return b
	}
	fewer := int64(sort.Search(int(pending), func(n int) bool { return level(recent, pending-int64(n)) < state.RuleLevel }))
	if fewer < pending {
		b.FewerPending, b.FewerLevel = fewer, level(recent, pending-fewer)
		return b
	}
	// Pending documents are done, or their leases have ended, before much fades.
	recentIn := func(seconds int) float64 {
		left := state.Recent * math.Exp2(-float64(seconds)/fair.Day.Seconds())
		if left < 0.5 { // it is forgotten
			left = 0
		}
		return left + 1
	}
	const enough = 100 * 24 * 60 * 60
	seconds := sort.Search(enough, func(n int) bool { return level(recentIn(n), 1) < state.RuleLevel })
	if seconds < enough {
		b.FadedInMS, b.FadedLevel = 1000*int64(seconds), level(recentIn(seconds), 1)
	}
	return b
}

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
