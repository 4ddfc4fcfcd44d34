package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
)

// workersView shows the processes of the fleet.
type workersView struct {
	Text     string // that is searched for
	Known    bool
	Rows     []insight.Worker
	All      int
	Obeying  int
	Degraded int
}

// workers shows the processes of the fleet, the ones with problems first.
func (v *visit) workers() (string, any) {
	found, ok := read(v, "workers", v.interval, v.inspector().Workers)
	view := workersView{Text: v.ask("q"), Known: ok, All: len(found)}
	for _, w := range found {
		if w.Obeys {
			view.Obeying++
		}
		if w.Degraded {
			view.Degraded++
		}
		if has(view.Text, w.Name, w.Host, w.ID, w.Language) {
			view.Rows = append(view.Rows, w)
		}
	}
	rank := func(w insight.Worker) int {
		switch {
		case !w.Obeys:
			return 0
		case w.Degraded:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(view.Rows, func(a, b insight.Worker) int { return cmp.Compare(rank(a), rank(b)) })
	view.Rows = view.Rows[:min(len(view.Rows), mostRows)]
	v.Refresh = v.interval
	return "Workers", view
}

const logPage = 50

// logView is a page of the log.
type logView struct {
	Known   bool
	Entries []insight.Logged
	UpTo    int64 // 0: the last entries
	Older   int64 // the version with which the next page begins; 0: there is no next page
}

// log shows who changed what, the newest first.
func (v *visit) log() (string, any) {
	upTo, _ := strconv.ParseInt(v.ask("upto"), 10, 64)
	upTo = max(upTo, 0)
	v.inspector() // which notes what Redis lost
	view := logView{UpTo: upTo}
	view.Entries, view.Known = read(v, fmt.Sprint("log ", upTo), v.interval, func(ctx context.Context) ([]insight.Logged, error) {
		return v.readLog(ctx, upTo, logPage+1)
	})
	if len(view.Entries) > logPage {
		view.Older, view.Entries = view.Entries[logPage].Version, view.Entries[:logPage]
	}
	return "Log", view
}

func (v *visit) readLog(ctx context.Context, upTo int64, most int) ([]insight.Logged, error) {
	entries, err := v.own.Admin.Log(ctx, upTo, most)
	logged := make([]insight.Logged, len(entries))
	for i, entry := range entries {
		logged[i] = insight.LoggedOf(entry)
	}
	return logged, err
}

// changes returns the last changes of operators, the newest first.
func (v *visit) changes() []insight.Logged {
	found, _ := read(v, "changes", 5*v.interval, func(ctx context.Context) ([]insight.Logged, error) {
		return v.readLog(ctx, 0, mostChanges)
	})
	return found
}

// policyView shows what decides now, and what decided before.
type policyView struct {
	Known  bool // what operators have set is known
	Name   string
	Item   *control.Item[control.Rules] // nil: the workers' own options apply
	Kept   string                       // the lost rules that workers still follow
	Tables []policyTable

	Text           string // that is searched for
	Overrides      []*insight.Overridden
	All            int // overrides
	OverridesKnown bool

	History      []insight.SetRules
	HistoryKnown bool
}

// policyTable is the table of a policy.
type policyTable struct {
	Tier   string // empty: customers without a tier
	Policy priority.Policy
	Rows   policyRows
}

func (v *visit) policy() (string, any) {
	inspector := v.inspector()
	rules := inspector.Rules()
	view := policyView{
		Known: inspector.Settings != nil, Name: inspector.Policy.Name, Text: v.ask("q"),
		Tables: []policyTable{{"", rules.Policy, rowsOf(rules.Policy)}},
	}
	for _, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		view.Tables = append(view.Tables, policyTable{name, rules.Tiers[name], rowsOf(rules.Tiers[name])})
	}
	if view.Known {
		view.Item = inspector.Settings.Rules
	}
	reports, _ := read(v, "reports", v.interval, func(ctx context.Context) ([]fleet.Report, error) { return inspector.Reports(ctx) })
	view.Kept = inspector.Kept(reports)
	all, ok := read(v, "overrides", 5*v.interval, inspector.Overrides)
	view.OverridesKnown, view.All = ok, len(all)
	for _, o := range all {
		if len(view.Overrides) < mostRows && has(view.Text, o.Exact(), o.By, o.Why, o.Says) {
			view.Overrides = append(view.Overrides, o)
		}
	}
	view.History, view.HistoryKnown = read(v, "history", v.interval, inspector.History)
	v.Refresh = v.interval
	return "Policy", view
}

// policyRows are the rows of a policy, with the columns of one rule or of both.
type policyRows struct {
	Rows          []policyRow
	Counts, Loads bool
}

// policyRow is a row of a policy's table.
type policyRow struct {
	insight.Row
	AtCount, AtLoad string // of the customer whose next document is in the row
}

func rowsOf(policy priority.Policy) policyRows {
	rows := policyRows{Counts: true, Loads: true}
	for _, row := range insight.Rows(policy) {
		rows.Rows = append(rows.Rows, policyRow{Row: row})
	}
	return rows
}

// mark shows in which row a customer's next document is, without an override.
func (p *policyRows) mark(c *insight.Customer) {
	row := &p.Rows[c.RuleLevel-1]
	switch {
	case c.ByCount():
		row.AtCount, p.Loads = insight.Group(c.Count-1), false
	case c.ByLoad():
		row.AtLoad, p.Counts = c.Number(), false
	}
}
