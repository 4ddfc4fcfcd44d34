package page

import (
	"maps"
	"slices"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// policyView shows what decides now, and what decided before.
type policyView struct {
	Name    string
	Item    *control.Item[control.Rules] // nil: the workers' own options apply
	Tables  []policyTable
	Levels  priority.Level
	History []insight.SetRules
	Known   bool // what operators have set is known
	Done    int64
	Example string
	Obey    obeyed // who follows the change that was made
	Lost    bool   // Redis lost what operators set
	Kept    string // the lost rules that workers still follow

	Overrides      int // in force or not, without the search
	Override       []*insight.Overridden
	Pager          pager
	OverridesKnown bool
}

// policyTable is the table of a policy.
type policyTable struct {
	Tier   string // empty: customers without a tier
	Policy priority.Policy
	Rows   policyRows
}

// policy shows what decides.
func (v *visit) policy() {
	ctx := v.reading
	inspector := v.inspector()
	view := policyView{
		Name: inspector.Policy.Name, Levels: v.options.Levels, Known: inspector.Settings != nil, Done: v.done(),
		Tables: tablesOf(inspector.Rules()),
	}
	if inspector.Settings != nil {
		view.Item = inspector.Settings.Rules
	}
	view.Lost = v.cache.lost.Load() != nil
	reports := v.cache.reports.get(ctx)
	view.Kept = inspector.Kept(reports.value)
	if view.Done > 0 {
		noteStale(v, reports)
		obey, _ := insight.ObeyRules(reports.value, inspector.RulesVersion(), setPolicy(inspector))
		view.Obey = obeyedBy(obey)
	}
	history := v.cache.history.get(ctx)
	noteStale(v, history)
	view.History = history.value
	overrides := v.cache.overrides.get(ctx)
	noteStale(v, overrides)
	query := v.r.URL.Query()
	view.OverridesKnown, view.Overrides = !overrides.at.IsZero(), len(overrides.value)
	view.Override, view.Pager = paged(searched(overrides.value, query.Get("q")), "policy", query)
	v.showLive("policy", "Policy", view)
}

// setPolicy returns the policy that operators have set, or nil.
func setPolicy(inspector *insight.Inspector) *priority.Policy {
	if inspector.RulesVersion() == 0 {
		return nil
	}
	return &inspector.Policy.Policy
}

// searched returns the overrides with a text in their customer, author or reason.
func searched(all []*insight.Overridden, text string) []*insight.Overridden {
	text = strings.ToLower(text)
	return slices.DeleteFunc(slices.Clone(all), func(o *insight.Overridden) bool {
		return !strings.Contains(strings.ToLower(o.Exact()+"\x00"+o.By+"\x00"+o.Why+"\x00"+o.Says), text)
	})
}

func tablesOf(rules control.Rules) []policyTable {
	tables := []policyTable{{"", rules.Policy, rowsOf(rules.Policy)}}
	for _, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		tables = append(tables, policyTable{name, rules.Tiers[name], rowsOf(rules.Tiers[name])})
	}
	return tables
}

// matrix shows from which level to which level customers would go.
type matrix struct {
	To   []priority.Level
	Rows []matrixRow
}

type matrixRow struct {
	From  priority.Level
	Cells []matrixCell
}

type matrixCell struct {
	Customers int64
	Class     string // same, forward or back
}

func shiftsOf(found insight.Compared) matrix {
	m := matrix{}
	last := priority.First
	for _, s := range found.Shifts {
		last = max(last, s.To)
	}
	for to := priority.First; to <= last; to++ {
		m.To = append(m.To, to)
	}
	for _, s := range found.Shifts { // by level
		if n := len(m.Rows); n == 0 || m.Rows[n-1].From != s.From {
			m.Rows = append(m.Rows, matrixRow{s.From, make([]matrixCell, last)})
		}
		class := [...]string{"forward", "same", "back"}[s.Direction()+1]
		m.Rows[len(m.Rows)-1].Cells[s.To-1] = matrixCell{s.Customers, class}
	}
	return m
}
