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

// State is a priority.State in JSON, with durations in milliseconds.
type State struct {
	Rule        string         `json:"rule"`       // by count, by load or unknown
	Level       priority.Level `json:"level"`      // of the last document; by count, without an override
	NextLevel   priority.Level `json:"next_level"` // of a document that arrives now
	RuleLevel   priority.Level `json:"rule_level"` // the same by the rule alone
	Count       int64          `json:"count"`
	ResetInMS   int64          `json:"reset_in_ms"` // 0: the key has no TTL
	Load        float64        `json:"load"`
	Recent      float64        `json:"recent"`
	Cost        float64        `json:"cost"`
	Pending     int64          `json:"pending"`
	PendingLast int64          `json:"pending_last"`
	OldestMS    int64          `json:"oldest_ms"`
	LatencyMS   int64          `json:"latency_ms"`
	LeaseMS     int64          `json:"lease_ms"`

	rule       priority.Rule
	overridden bool
}

// stateOf returns a priority.State for display.
func stateOf(s priority.State) State {
	return State{
		Rule: s.Rule.String(), Level: s.Level, NextLevel: s.NextLevel, RuleLevel: s.RuleLevel,
		Count: s.Count, ResetInMS: s.ResetIn.Milliseconds(),
		Load: s.Load, Recent: s.Recent, Cost: s.Cost, Pending: s.Pending, PendingLast: s.PendingLast,
		OldestMS: s.Oldest.Milliseconds(), LatencyMS: s.Latency.Milliseconds(), LeaseMS: s.Lease.Milliseconds(),
		rule: s.Rule, overridden: s.Override != priority.Override{},
	}
}

// ByCount and ByLoad report which of the two rules the customer is counted by.
func (s State) ByCount() bool { return s.rule == priority.ByCount }
func (s State) ByLoad() bool  { return s.rule == priority.ByLoad }

// Overridden reports whether an override is in force, even if the level is the same.
func (s State) Overridden() bool { return s.overridden }

// ResetIn, Oldest, Latency and Lease return the durations.
func (s State) ResetIn() time.Duration { return milliseconds(s.ResetInMS) }
func (s State) Oldest() time.Duration  { return milliseconds(s.OldestMS) }
func (s State) Latency() time.Duration { return milliseconds(s.LatencyMS) }
func (s State) Lease() time.Duration   { return milliseconds(s.LeaseMS) }

func milliseconds(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

// Documents returns how many documents there were since the last reset, by count.
func (s State) Documents() int64 { return 1 - s.Count }

// Number is the count or the load, by the rule.
func (s State) Number() string {
	switch s.rule {
	case priority.ByCount:
		return Group(s.Count)
	case priority.ByLoad:
		return number(s.Load)
	}
	return "-"
}

// Product writes out the load of a document that arrives now, such as
// "12.0 recent × 6 pending × 1.00 cost = 72.0".
func (s State) Product() string {
	return fmt.Sprintf("%s recent × %s pending × %s cost = %s",
		number(s.recentThen()), Group(s.counting()+1), cost(s.Cost), number(s.Load))
}

// recentThen returns Recent after one more document.
func (s State) recentThen() float64 { return min(s.Recent+1, mostRecent) }

// counting is how many pending documents count in the load of the next one.
func (s State) counting() int64 { return s.Pending - s.PendingLast }

// number writes a load, or what was submitted recently.
func number(x float64) string {
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

// levelOfLoad returns the level of a load, if so many documents, this one included, would
// be pending beyond the last load.
func levelOfLoad(policy priority.Policy, load float64, beyond int64) priority.Level {
	level := policy.LevelOfLoad(load)
	if level > priority.Level(len(policy.Loads)) {
		level += priority.Level(fair.Turn(beyond, policy.Turns))
	}
	return level
}

// Better says when the next level by load gets better. 0: that alone is not enough.
type Better struct {
	FewerPending int64          `json:"fewer_pending"` // how many fewer pending documents it takes
	FewerLevel   priority.Level `json:"fewer_level"`
	FadedInMS    int64          `json:"faded_in_ms"` // for how long nothing more may be submitted
	FadedLevel   priority.Level `json:"faded_level"`
}

// betterOf finds out when the level of a customer's next document gets better.
func betterOf(policy priority.Policy, s State) (b Better) {
	if !s.ByLoad() {
		return b
	}
	of := func(recent float64, counting int64) priority.Level {
		load := fair.Load(int64(math.Round(1000*recent)), counting+1, int64(math.Round(1000*s.Cost)))
		return levelOfLoad(policy, float64(load)/1e6, s.PendingLast+1)
	}
	now := s.RuleLevel
	fewer := int64(sort.Search(int(s.counting())+1, func(n int) bool { return of(s.recentThen(), s.counting()-int64(n)) < now }))
	if fewer <= s.counting() {
		b.FewerPending, b.FewerLevel = fewer, of(s.recentThen(), s.counting()-fewer)
		return b
	}
	// Pending documents are done, or their leases have ended, before much fades.
	recentIn := func(seconds int) float64 {
		left := s.Recent * math.Exp2(-float64(seconds)/fair.Day.Seconds())
		if left < 0.5 { // it is forgotten
			left = 0
		}
		return left + 1
	}
	const enough = 100 * 24 * 60 * 60
	seconds := sort.Search(enough, func(n int) bool { return of(recentIn(n), 0) < now })
	if seconds < enough {
		b.FadedInMS, b.FadedLevel = 1000*int64(seconds), of(recentIn(seconds), 0)
	}
	return b
}
