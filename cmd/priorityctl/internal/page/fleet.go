package page

import (
	"maps"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// workersView shows the processes of the fleet.
type workersView struct {
	Text       string           // that is searched for
	Here, Gone []insight.Worker // that match
}

// workers shows the processes of the fleet, the ones that do not follow first.
func (v *visit) workers() (string, any) {
	view := workersView{Text: v.ask("q")}
	var follow []insight.Worker
	for _, w := range v.Look.Workers {
		switch {
		case !has(view.Text, w.Name, w.Host, w.ID, w.Language):
		case !w.Here:
			view.Gone = append(view.Gone, w)
		case w.Follows:
			follow = append(follow, w)
		default:
			view.Here = append(view.Here, w)
		}
	}
	view.Here = append(view.Here, follow...)
	view.Here, view.Gone = view.Here[:min(len(view.Here), mostRows)], view.Gone[:min(len(view.Gone), mostRows)]
	return "Workers", view
}

const logPage = 50

// logView is a page of the latest changes.
type logView struct {
	Entries      []insight.Logged
	After, Older int // how many newer ones this page leaves out, and the next; 0: there is none
}

// log shows who changed what, the newest first.
func (v *visit) log() (string, any) {
	after, _ := strconv.Atoi(v.ask("after"))
	after = min(max(after, 0), len(v.Look.Changes))
	view := logView{Entries: v.Look.Changes[after:], After: after}
	if len(view.Entries) > logPage {
		view.Entries, view.Older = view.Entries[:logPage], view.After+logPage
	}
	return "Log", view
}

// policyView shows what decides now, and what decided before.
type policyView struct {
	Tables    []policyTable
	Text      string // that is searched for
	Overrides []*insight.Override
	History   []insight.Logged
}

// policyTable is the table of a policy.
type policyTable struct {
	Tier   string // empty: customers without a tier
	Policy priority.Policy
	rows
}

func tableOf(tier string, policy priority.Policy) policyTable {
	return policyTable{tier, policy, rows{Rows: insight.Rows(policy), Counts: true, Loads: true}}
}

func (v *visit) policy() (string, any) {
	view := policyView{Text: v.ask("q")}
	rules := v.Look.Rules
	view.Tables = []policyTable{tableOf("", rules.Policy)}
	for _, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		view.Tables = append(view.Tables, tableOf(name, rules.Tiers[name]))
	}
	for _, o := range v.Look.Overrides {
		if len(view.Overrides) < mostRows && has(view.Text, o.Exact(), o.By, o.Why, o.Says) {
			view.Overrides = append(view.Overrides, o)
		}
	}
	for _, change := range v.Look.Changes {
		if len(view.History) < logPage && change.Kind == "policy" {
			view.History = append(view.History, change)
		}
	}
	return "Policy", view
}

// rows are a policy's table, with the columns of one rule or of both.
type rows struct {
	Rows          []insight.Row
	Counts, Loads bool
	At            priority.Level // of a customer's next document, without an override
	Number        string         // the customer's count or load then; empty: there is none
}
