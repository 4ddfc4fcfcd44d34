package insight

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// SetRules are rules that operators have set, now or before.
type SetRules struct {
	Version int64         `json:"version"`
	Current bool          `json:"current"`
	At      time.Time     `json:"at"`
	By      string        `json:"by"`
	Why     string        `json:"why"`
	Rules   control.Rules `json:"policy"`

	// SameAs is the first version of the history with the same rules, if it is an earlier one.
	SameAs int64 `json:"same_as,omitempty"`
}

// SetRulesOf returns an item for display.
func SetRulesOf(item control.Item[control.Rules], current bool) SetRules {
	return SetRules{Version: item.Version, Current: current, At: item.At.UTC(), By: item.By, Why: item.Why, Rules: item.Value}
}

// History returns the fleet's present and earlier rules, the newest first. Call
// Follow first. An error comes from [control.Admin.History].
func (i *Inspector) History(ctx context.Context) ([]SetRules, error) {
	if i.Admin == nil {
		return nil, nil
	}
	items, err := i.Admin.History(ctx)
	if err != nil {
		return nil, i.unread(err)
	}
	all := make([]SetRules, len(items))
	for n, item := range items {
		all[n] = SetRulesOf(item, item.Version == i.RulesVersion())
		all[n].SameAs = sameAs(items[n+1:], item.Value)
	}
	return all, nil
}

// sameAs returns the first of some versions with the same rules, 0 if there is none. The
// newest comes first.
func sameAs(history []control.Item[control.Rules], rules control.Rules) int64 {
	for _, item := range slices.Backward(history) {
		if SameRules(item.Value, rules) {
			return item.Version
		}
	}
	return 0
}

// SameRules reports whether rules with every field filled in are the same.
func SameRules(a, b control.Rules) bool {
	same := func(a, b priority.Policy) bool {
		return slices.Equal(a.Thresholds, b.Thresholds) && slices.Equal(a.Loads, b.Loads) &&
			a.ResetInterval == b.ResetInterval && a.ResetMode == b.ResetMode && a.Turns == b.Turns
	}
	return same(a.Policy, b.Policy) && maps.EqualFunc(a.Tiers, b.Tiers, same)
}

// RulesSummary says in a few words what rules with every field filled in are, and how
// they differ from the default.
func RulesSummary(rules control.Rules) string {
	summary := fmt.Sprintf("%s, %sreset after %s since the %s", Plural(int64(rules.Policy.Last()), "level"), differences(rules.Policy),
		Span(rules.Policy.ResetInterval), strings.ReplaceAll(ResetModeText(rules.Policy.ResetMode), "-", " "))
	for i, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		if i == mostTiers {
			return summary + fmt.Sprintf(", %d more tiers", len(rules.Tiers)-i)
		}
		tier := rules.Tiers[name]
		summary += fmt.Sprintf(", tier %s: %s%s", Shown(name), differences(tier), Plural(int64(tier.Last()), "level"))
	}
	return summary
}

const (
	mostTiers  = 3  // in a sentence
	mostListed = 60 // bytes of a list of numbers
)

// differences writes the tables that are not the default's, as the flags take them.
func differences(policy priority.Policy) (text string) {
	if !slices.Equal(policy.Thresholds, priority.DefaultPolicy().Thresholds) {
		text += "thresholds " + listed(policy.Thresholds, func(n int64) string { return strconv.FormatInt(n, 10) }) + ", "
	}
	usual := priority.Policy{Thresholds: policy.Thresholds}.WithDefaults()
	if !slices.Equal(policy.Loads, usual.Loads) {
		text += "loads " + listed(policy.Loads, func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }) + ", "
		usual.Turns = 0
	}
	if policy.Turns != usual.Turns {
		text += Plural(int64(policy.Turns), "turn") + ", "
	}
	return text
}

// listed joins numbers by commas, and leaves out the middle of what is too long.
func listed[T any](numbers []T, text func(T) string) string {
	if len(numbers) == 0 {
		return "none"
	}
	all := make([]string, len(numbers))
	for i, number := range numbers {
		all[i] = text(number)
	}
	for cut := false; ; cut = true {
		middle := len(all) / 2
		if cut {
			all[middle] = "…"
		}
		if joined := strings.Join(all, ","); len(joined) <= mostListed || len(all) < 4 {
			return joined
		}
		all = slices.Delete(all, middle, middle+1)
	}
}

// Harsh says what is probably a mistake in rules with every field filled in: which new
// customers begin beyond the last threshold, or the last load; empty: none do.
func Harsh(rules control.Rules) string {
	var who []string
	harsh := func(of string, policy priority.Policy) {
		if n := len(policy.Thresholds); n > 0 && policy.Level(0) == priority.Level(n+1) {
			who = append(who, "by count"+of)
		}
		if n := len(policy.Loads); n > 0 && policy.LevelOfLoad(1) == priority.Level(n+1) {
			who = append(who, "by load"+of)
		}
	}
	harsh("", rules.Policy)
	for _, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		harsh(" in tier "+Shown(name), rules.Tiers[name])
	}
	switch {
	case who == nil:
		return ""
	case len(who) > mostTiers:
		who = append(who[:mostTiers:mostTiers], "and so on")
	}
	return strings.Join(who, ", ") + ", even a new customer's first document is beyond the last number of the table"
}

// Logged is a line of the log.
type Logged struct {
	Version int64     `json:"version"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Why     string    `json:"why"`
	Kind    string    `json:"kind"` // policy, override, reset or forget
	*Name             // the customer of an override or a reset

	Old   json.RawMessage `json:"old,omitempty"`
	New   json.RawMessage `json:"new,omitempty"`
	Until time.Time       `json:"until,omitzero"`
	Says  string          `json:"says"` // what was done, a sentence without a full stop
}

// LoggedOf returns an entry of the log for display. The history, if it is known, says which
// policies were applied before.
func LoggedOf(entry control.Entry, history ...control.Item[control.Rules]) Logged {
	l := Logged{
		Version: entry.Version, At: entry.At.UTC(), By: entry.By, Why: entry.Why, Kind: entry.Kind,
		Old: entry.Old, New: entry.New,
	}
	if !entry.Until.IsZero() {
		l.Until = entry.Until.UTC()
	}
	who := ""
	if entry.Customer != "" {
		name := NameOf(entry.Customer)
		l.Name, who = &name, Shown(entry.Customer)
	}
	before, after := said(entry.Kind, entry.Old), said(entry.Kind, entry.New)
	if entry.Kind == "override" && after != "" && !l.Until.IsZero() {
		after += ", for " + Span(l.Until.Sub(l.At))
	}
	switch entry.Kind {
	case "reset":
		l.Says = who + " reset"
	case "forget":
		l.Says = "a customer forgotten"
	case "policy":
		begun := "applied"
		var rules control.Rules
		if entry.New != nil && json.Unmarshal(entry.New, &rules) == nil {
			before := slices.DeleteFunc(slices.Clone(history), func(item control.Item[control.Rules]) bool { return item.Version >= entry.Version })
			if first := sameAs(before, rules); first > 0 {
				begun = fmt.Sprintf("applied again, as in version %d", first)
			}
		}
		l.Says = "policy " + changed(before, after, begun, "withdrawn: the workers' own holds")
	case "override":
		l.Says = who + " " + changed(before, after, "overridden", "override ended")
	default:
		l.Says = Shown(entry.Kind)
	}
	return l
}

func changed(before, after, begun, ended string) string {
	switch {
	case after == "":
		return ended + " (before: " + before + ")"
	case before == "":
		return begun + ": " + after
	}
	return begun + ": " + after + " (before: " + before + ")"
}

// said says in a few words what a value of the log is. The value may be anything.
func said(kind string, text json.RawMessage) string {
	if text == nil {
		return ""
	}
	var rules control.Rules
	var override priority.Override
	switch kind {
	case "policy":
		if json.Unmarshal(text, &rules) == nil {
			return RulesSummary(rules)
		}
	case "override":
		if json.Unmarshal(text, &override) == nil {
			return Says(override)
		}
	}
	return Quoted(string(text))
}
