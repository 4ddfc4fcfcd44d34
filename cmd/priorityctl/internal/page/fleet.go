package page

import (
	"maps"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const (
	mostBusiest = 20 // customers with documents that a page shows, and as many that only wait
	mostLogged  = 50 // entries of the log that a page shows
)

// nowView shows what happens now.
type nowView struct {
	Pending int64
	Oldest  time.Duration
	Busiest []insight.Busy
	Over    overTime
}

func (v *visit) now() (string, any) {
	view := nowView{Over: v.Look.overTime(v.request.URL.Query().Get("over") == "day")}
	if v.Look.Top == nil {
		return "Now", view
	}
	view.Pending = v.Look.Top.Unread
	for _, level := range v.Look.Top.Levels {
		view.Pending += level.Pending
		view.Oldest = max(view.Oldest, level.Oldest())
	}
	shown := map[bool]int{}
	for _, b := range v.Look.Top.Busiest {
		if shown[b.Documents > 0]++; shown[b.Documents > 0] <= mostBusiest {
			view.Busiest = append(view.Busiest, b)
		}
	}
	return "Now", view
}

// workersView shows the processes of the fleet, the ones that do not follow first.
type workersView struct{ Here, Gone []insight.Worker }

func (v *visit) workers() (string, any) {
	var view workersView
	var follow []insight.Worker
	for _, w := range v.Look.Workers {
		switch {
		case !w.Here:
			view.Gone = append(view.Gone, w)
		case w.Follows:
			follow = append(follow, w)
		default:
			view.Here = append(view.Here, w)
		}
	}
	view.Here = first(append(view.Here, follow...), mostRows)
	view.Gone = first(view.Gone, mostRows)
	return "Workers", view
}

func first[T any](all []T, most int) []T { return all[:min(len(all), most)] }

// log shows who changed what, the newest first.
func (v *visit) log() (string, any) { return "Log", first(v.Look.Changes, mostLogged) }

// policyView shows what decides now, and what decided before.
type policyView struct {
	Tables    []policyTable
	Overrides []insight.Override
	History   []insight.Logged
}

// policyTable is the table of a policy, with the columns of one rule or of both.
type policyTable struct {
	Tier          string // empty for customers without a tier
	Policy        priority.Policy
	Rows          []insight.Row
	Counts, Loads bool
	At            priority.Level // the level of a customer's next document, without an override
	Number        string         // the customer's count or load then, or empty
}

func tableOf(tier string, policy priority.Policy) policyTable {
	return policyTable{Tier: tier, Policy: policy, Rows: insight.Rows(policy), Counts: true, Loads: true}
}

func (v *visit) policy() (string, any) {
	policies := v.Look.Policies
	view := policyView{Tables: []policyTable{tableOf("", policies.Policy)}, Overrides: first(v.Look.Overrides, mostRows)}
	for _, name := range slices.Sorted(maps.Keys(policies.Tiers)) {
		view.Tables = append(view.Tables, tableOf(name, policies.Tiers[name]))
	}
	for _, change := range v.Look.Changes {
		if len(view.History) < mostLogged && change.Kind == "policies" {
			view.History = append(view.History, change)
		}
	}
	return "Policy", view
}
