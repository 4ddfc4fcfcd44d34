package page

import (
	"cmp"
	"errors"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// customerView shows all about a customer.
type customerView struct {
	Customer string
	Age      string
	Found    *insight.Customer // nil: it cannot be read, and Failure says why
	Failure  string
	Corrupt  bool // a key is corrupt, and a reset removes it
	Override *insight.Overridden
	Rows     policyRows
	History  []changed
	Looked   int64 // how many changes were searched
	Done     int64
	Obey     obeyed // who obeys the change that was made
	Levels   []priority.Level
	Lasts    []lasting
}

// policyRow is a row of a policy's table, and says whether the next document is in
// it.
type policyRow struct {
	insight.Row
	Here    bool
	AtCount string // the count, if the customer is counted by it
	AtLoad  string // the load
}

// policyRows are the rows of a policy, with the columns of one rule or of both.
type policyRows struct {
	Rows          []policyRow
	Counts, Loads bool
}

// unread is shown in place of a customer; the page's notice says why.
const unread = "What the customer has now cannot be read."

// lasting is a time for which an override may be set.
type lasting struct{ Text, Value string }

var lastings = []lasting{
	{"15 minutes", "15m"}, {"1 hour", "1h"}, {"4 hours", "4h"}, {"12 hours", "12h"},
	{"1 day", "24h"}, {"3 days", "72h"}, {"7 days", "168h"}, {"30 days", "720h"},
}

// customer shows a customer.
func (v *visit) customer() {
	customer, err := customerOf(v.r.URL.Query())
	if err != nil {
		v.badCustomer(err)
		return
	}
	ctx := v.reading
	v.inspector()
	found := v.cache.customers.get(ctx, customer)
	override := v.cache.override.get(ctx, customer)
	noteStale(v, override)
	view := customerView{
		Customer: customer, Override: override.value, Done: v.done(), Lasts: lastings, Levels: v.levels(),
	}
	switch {
	case errors.Is(found.err, priority.ErrCorruptCount):
		view.Failure, view.Corrupt = v.cache.text(found.err), true
	case found.at.IsZero():
		noteStale(v, found)
		view.Failure = unread
	default:
		noteStale(v, found)
		view.add(found.value.Customer)
		view.Override = cmp.Or(found.value.Override, view.Override)
		view.Age = insight.Span(time.Since(found.at).Round(time.Second))
	}
	changes := v.cache.changes.get(ctx)
	noteStale(v, changes)
	view.Looked = int64(len(changes.value))
	for _, entry := range changes.value {
		if entry.Name != nil && entry.Exact() == customer {
			view.History = append(view.History, changed{entry, "", entry.Version == view.Done})
			if entry.Version == view.Done {
				view.Obey = v.obeyChange(entry, view.Override)
			}
		}
	}
	v.showLive("customer", insight.Shown(customer), view)
}

func (view *customerView) add(found *insight.Customer) {
	view.Found = found
	view.Rows = rowsOf(found.Policy.Policy)
	switch row := &view.Rows.Rows[found.Ruled()-1]; {
	case found.ByCount():
		row.Here, row.AtCount, view.Rows.Loads = true, insight.Group(found.Count-1), false
	case found.ByLoad():
		row.Here, row.AtLoad, view.Rows.Counts = true, found.Number(), false
	}
}

// rowsOf returns the table of a policy.
func rowsOf(policy priority.Policy) policyRows {
	rows := policyRows{Counts: true, Loads: true}
	for _, row := range insight.Rows(policy) {
		rows.Rows = append(rows.Rows, policyRow{Row: row})
	}
	return rows
}
