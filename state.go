package priority

import (
	"encoding/json"
	"fmt"
	"time"
)

// Rule is one of the two rules by which a document gets its level.
type Rule int

const (
	Unknown Rule = iota // nothing is known about the customer
	ByCount             // Next, NextN and NextEach
	ByLoad              // Submit and SubmitN
)

// String returns "unknown", "by count" or "by load".
func (r Rule) String() string {
	switch r {
	case Unknown:
		return "unknown"
	case ByCount:
		return "by count"
	case ByLoad:
		return "by load"
	}
	return fmt.Sprintf("Rule(%d)", int(r))
}

// State is everything known about a customer: it explains a document's level and predicts
// the next one.
type State struct {
	// Rule is the rule by which the customer is counted: ByLoad if any submission is still
	// remembered, else ByCount if the customer has a count.
	Rule Rule

	// Level is the level of the customer's latest document. By count, it is the level by the
	// rule alone. By load, it is the level of the newest pending document, and 0 if none is
	// pending.
	Level Level

	// NextLevel is the level of a document that arrives now and costs as much as the
	// customer's other documents, within the bounds of the operators' override, if any.
	NextLevel Level

	// RuleLevel is NextLevel by the rule alone. Bounds are those of the override that
	// operators have set for the customer, and OverrideEndsIn is the time until it ends; 0: it
	// has no end. Both are zero without an override, or if the store does not read overrides.
	RuleLevel      Level
	Bounds         Bounds
	OverrideEndsIn time.Duration

	// Count is the count after the latest Next, and ResetIn the time from now until it is
	// reset if no document arrives; 0 if there is no count.
	Count   int64
	ResetIn time.Duration

	// Load is the load of a document that arrives now, itself included. Recent is how many
	// documents were submitted recently, at most 512, without it; Cost is the cost of the
	// customer's documents, as learned from Done, where 1 is the usual cost.
	// The fields from Load to Lease are 0 unless Rule is ByLoad.
	Load, Recent, Cost float64

	// Pending is how many documents are pending. PendingFlood of them are a flood's: they are
	// beyond the last load, and do not count in Load. Scheduled is how many are due later.
	Pending, PendingFlood, Scheduled int64

	// AccountLoad is the load that the document would be of its account, and AccountFlood the
	// account's PendingFlood; both are 0 unless the customer is a user of an account. Peek of the
	// account tells the rest.
	AccountLoad  float64
	AccountFlood int64

	// Oldest is for how long the oldest pending document has been due. Latency is the average
	// time until Done, 0 if it is not known. Lease is how long a document before the last load
	// counts as pending without a Done.
	Oldest, Latency, Lease time.Duration

	// Degraded reports whether a fallback answered with its own numbers: the fleet's
	// were unreachable.
	Degraded bool
}

// MarshalJSON writes the rule in words and durations in milliseconds.
func (s State) MarshalJSON() ([]byte, error) {
	var override *overrideJSON
	if s.Bounds != (Bounds{}) {
		override = &overrideJSON{s.Bounds.Earliest, s.Bounds.Latest, s.OverrideEndsIn.Milliseconds()}
	}
	return json.Marshal(struct {
		Rule         string        `json:"rule"`
		Level        Level         `json:"level"`
		NextLevel    Level         `json:"next_level"`
		RuleLevel    Level         `json:"rule_level"`
		Override     *overrideJSON `json:"override,omitempty"`
		Count        int64         `json:"count"`
		ResetInMS    int64         `json:"reset_in_ms"`
		Load         float64       `json:"load"`
		Recent       float64       `json:"recent"`
		Cost         float64       `json:"cost"`
		Pending      int64         `json:"pending"`
		PendingFlood int64         `json:"pending_flood"`
		Scheduled    int64         `json:"scheduled,omitempty"`
		AccountLoad  float64       `json:"account_load,omitempty"`
		AccountFlood int64         `json:"account_flood,omitempty"`
		OldestMS     int64         `json:"oldest_ms"`
		LatencyMS    int64         `json:"latency_ms"`
		LeaseMS      int64         `json:"lease_ms"`
		Degraded     bool          `json:"degraded,omitempty"`
	}{
		s.Rule.String(), s.Level, s.NextLevel, s.RuleLevel, override, s.Count, s.ResetIn.Milliseconds(),
		s.Load, s.Recent, s.Cost, s.Pending, s.PendingFlood, s.Scheduled, s.AccountLoad, s.AccountFlood,
		s.Oldest.Milliseconds(), s.Latency.Milliseconds(), s.Lease.Milliseconds(), s.Degraded,
	})
}

type overrideJSON struct {
	Earliest Level `json:"earliest"`
	Latest   Level `json:"latest"`
	EndsInMS int64 `json:"ends_in_ms"` // 0: it has no end
}
