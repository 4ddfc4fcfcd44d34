package page

import (
	"maps"
	"slices"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// policyView is what decides, and what was before.
type policyView struct {
	Name     string
	Item     *control.Item[control.Rules] // nil: the workers' own options hold
	Tables   []policyTable
	Levels   priority.Level
	History  []insight.SetRules
	Known    bool // what operators have set is
	Done     int64
	Example  string
	Override []*insight.Overridden

	MoreOverrides int64 // that are not shown
}

// policyTable is the table of a policy.
type policyTable struct {
	Tier   string // empty: of all without one
	Policy priority.Policy
	Rows   policyRows
}

const mostListed = 100 // overrides on the page

// policy shows what decides.
func (v *visit) policy() {
	ctx := v.reading
	inspector := v.inspector()
	view := policyView{
		Name: inspector.Policy.Name, Levels: v.options.Levels, Known: inspector.Document != nil, Done: v.done(),
		Tables: tablesOf(inspector.Rules()),
	}
	if document := inspector.Document; document != nil {
		view.Item = document.Rules
	}
	history := v.fleet.history.get(ctx)
	noteStale(v, history)
	view.History = history.value
	view.Override = inspector.Overrides()
	if n := len(view.Override); n > mostListed {
		view.Override, view.MoreOverrides = view.Override[:mostListed], int64(n-mostListed)
	}
	v.showLive("policy", "Policy", view)
}

func tablesOf(rules control.Rules) []policyTable {
	tables := []policyTable{{"", rules.Policy, rowsOf(rules.Policy)}}
	for _, name := range slices.Sorted(maps.Keys(rules.Tiers)) {
		tables = append(tables, policyTable{name, rules.Tiers[name], rowsOf(rules.Tiers[name])})
	}
	return tables
}

// matrix is from which level to which other customers would go.
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
