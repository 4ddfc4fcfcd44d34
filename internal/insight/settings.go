package insight

import (
	"context"
	"encoding/json"
	"fmt"
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
}

// SetRulesOf returns an item for display.
func SetRulesOf(item control.Item[control.Rules], current bool) SetRules {
	return SetRules{item.Version, current, item.At.UTC(), item.By, item.Why, item.Value}
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
	}
	return all, nil
}

// RulesSummary says in a few words what rules with every field filled in are.
func RulesSummary(rules control.Rules) string {
	summary := fmt.Sprintf("%s, reset after %s since the %s", Plural(int64(rules.Policy.Last()), "level"),
		Span(rules.Policy.ResetInterval), strings.ReplaceAll(ResetModeText(rules.Policy.ResetMode), "-", " "))
	if n := rules.Policy.Turns; n > 0 {
		summary += ", " + Plural(int64(n), "turn")
	}
	if n := len(rules.Tiers); n > 0 {
		summary += ", " + Plural(int64(n), "tier")
	}
	return summary
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

// LoggedOf returns an entry of the log for display.
func LoggedOf(entry control.Entry) Logged {
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
		l.Says = "policy " + changed(before, after, "applied", "withdrawn: the workers' own holds")
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
