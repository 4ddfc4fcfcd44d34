package insight

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// Row is a row of a policy's table: which counts and which loads have the level.
type Row struct {
	Level priority.Level

	// The counts, both included. Math.MinInt64 and math.MaxInt64 mean no bound. Least
	// is more than Most if no count has the level.
	Least, Most int64

	// Over is the load above which the level begins, 0 for level 1. UpTo is where it
	// ends, +Inf for the levels of floods. Both are 0 if no load has the level.
	Over, UpTo float64

	// Pending is how many documents of a customer's flood must be pending, the new one
	// included, for the level of a turn; else 0.
	Pending int64
}

// Rows returns the table of a policy with every field filled in, from level 1 on.
func Rows(policy priority.Policy) []Row {
	all := make([]Row, policy.Last())
	for i := range all {
		all[i] = rowOf(policy, priority.First+priority.Level(i))
	}
	return all
}

func rowOf(policy priority.Policy, level priority.Level) Row {
	r := Row{Level: level, Least: math.MinInt64, Most: math.MaxInt64}
	i, counts, loads := int(level)-1, policy.Thresholds, policy.Loads // i is the index of the level's end in both tables
	switch {
	case i > len(counts):
		r.Least, r.Most = 1, 0
	case i > 0:
		r.Most = counts[i-1] - 1
	}
	if i < len(counts) {
		r.Least = counts[i]
	}
	if i > len(loads)+policy.Turns {
		return r
	}
	r.UpTo = math.Inf(1)
	if i < len(loads) {
		r.UpTo = loads[i]
	}
	if begun := min(i, len(loads)); begun > 0 {
		r.Over = loads[begun-1]
	}
	if turn := i - len(loads); turn > 0 {
		r.Pending = fair.Turns(policy.Turns)[turn-1]
	}
	return r
}

// Condition writes the row's counts, such as "count < -2". Of several rows whose condition
// holds, the one furthest down decides.
func (r Row) Condition() string {
	switch {
	case r.Least > r.Most:
		return "none"
	case r.Most < math.MaxInt64:
		return fmt.Sprintf("count < %d", r.Most+1)
	case r.Least > math.MinInt64:
		return fmt.Sprintf("count ≥ %d", r.Least)
	}
	return "any count"
}

// Load writes the row's loads, such as "load > 8".
func (r Row) Load() string {
	switch {
	case r.UpTo == 0:
		return "none"
	case r.Pending > 0:
		pending := r.Pending
		r.Pending = 0
		return fmt.Sprintf("%s, ≥ %s pending", r.Load(), Group(pending))
	case r.Over > 0:
		return "load > " + bound(r.Over)
	case math.IsInf(r.UpTo, 1):
		return "any load"
	}
	return "load ≤ " + bound(r.UpTo)
}

// bound writes a load of a policy.
func bound(load float64) string {
	if load == math.Trunc(load) {
		return Group(int64(load))
	}
	return strconv.FormatFloat(load, 'f', -1, 64)
}

// Documents says which of a new customer's documents get the level by count, such as
// "4–5".
func (r Row) Documents() string {
	// The first document has count 0, the second -1.
	first, last := max(1-r.Most, 1), 1-r.Least
	switch {
	case r.Least > r.Most:
		return "none"
	case r.Least == math.MinInt64:
		return Group(first) + " and on"
	case last < first:
		return "none"
	case last == first:
		return Group(first)
	}
	return Group(first) + "–" + Group(last)
}

// Resets says in a sentence when a count is reset by a policy with every field filled in.
func Resets(policy priority.Policy) string {
	return fmt.Sprintf("A count is reset more than %s after the customer's %s.", Span(policy.ResetInterval), resetSince(policy))
}

func resetSince(policy priority.Policy) string {
	if policy.ResetMode == priority.SinceLastReset {
		return "latest reset"
	}
	return "latest document"
}

// Turns says what the turns of a policy are.
const Turns = "Above the largest load is a flood: the level follows from how many of the customer's documents are pending there, the new one included. So floods take turns."

// InOrder says what a policy in order does.
const InOrder = "In order: no document gets an earlier level than its customer's newest pending one."

// ParsePolicies reads policies from a file, or from a line of policy history, and fills every
// field in. An error wraps [priority.ErrInvalid].
func ParsePolicies(text []byte) (priority.Policies, error) {
	var line struct {
		Customer *string         `json:"customer"`
		Policies json.RawMessage `json:"policies"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&line); err == nil && line.Policies != nil && !decoder.More() {
		text = line.Policies
	} else if err == nil && line.Customer != nil {
		return priority.Policies{}, fmt.Errorf("%w policy: it is of one customer, not of the fleet", priority.ErrInvalid)
	}
	var policies priority.Policies
	if err := policies.UnmarshalJSON(text); err != nil {
		return policies, err
	}
	return policies, policies.Validate(0)
}

// Summary describes in a few words policies with every field filled in, and how they differ
// from the default.
func Summary(policies priority.Policies) string {
	policy := policies.Policy
	text := fmt.Sprintf("%s, %sreset after %s since the %s", Plural(int64(policy.Last()), "level"), differences(policy),
		Span(policy.ResetInterval), resetSince(policy))
	if n := len(policies.Tiers); n > 0 {
		names := slices.Sorted(maps.Keys(policies.Tiers))
		for i, name := range names {
			names[i] = Shown(name)
		}
		text += fmt.Sprintf(", %s: %s", Plural(int64(n), "tier"), Named(names))
	}
	return text
}

// differences writes the tables that are not the default's.
func differences(policy priority.Policy) (text string) {
	if !slices.Equal(policy.Thresholds, priority.DefaultPolicy().Thresholds) {
		text += fmt.Sprintf("thresholds %v, ", policy.Thresholds)
	}
	usual := priority.Policy{Thresholds: policy.Thresholds}.WithDefaults()
	if !slices.Equal(policy.Loads, usual.Loads) {
		text += fmt.Sprintf("loads %v, ", policy.Loads)
	}
	if policy.Turns != usual.Turns {
		text += Plural(int64(policy.Turns), "turn") + ", "
	}
	if policy.InOrder {
		text += "in order, "
	}
	return text
}
