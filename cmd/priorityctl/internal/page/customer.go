package page

import (
	"context"
	"errors"
	"net/http"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/internal/check"
)

// customerView shows all about a customer.
type customerView struct {
	Customer string
	Details  *insight.Customer // nil if they cannot be read
	Failure  string            // what is wrong with a corrupt key
	Override *insight.Override // nil if there is none
	Table    policyTable
	History  []insight.Logged
	Commands []command
}

// command is a command of priorityctl to copy, and what it does.
type command struct{ Does, Line string }

func (v *visit) customer() (string, any) {
	view := customerView{Customer: v.request.URL.Query().Get("c")}
	if err := check.Customer(view.Customer); err != nil {
		v.status = http.StatusBadRequest
		return "Name a customer of 1 to 512 bytes", customerView{}
	}
	view.read(v)
	for _, each := range []command{
		{"Put the customer first, for four hours", "override set -level 1 -for 4h -why ''"},
		{"Give level 3 or an earlier one", "override set -not-later-than 3 -for 4h -why ''"},
		{"Give level 7 or a later one", "override set -not-earlier-than 7 -for 4h -why ''"},
		{"End the override", "override end -why ''"},
		{"Forget the count and the pending documents; this cannot be undone", "reset -why ''"},
	} {
		if view.Override != nil || each.Does != "End the override" {
			who := view.Customer
			if each.Does == "End the override" {
				who = view.Override.Customer // or the account's
			}
			view.Commands = append(view.Commands, command{each.Does, v.inspector.CommandFor(who, each.Line+v.redis)})
		}
	}
	return insight.Shown(view.Customer), view
}

func (view *customerView) read(v *visit) {
	for _, entry := range v.Look.Changes {
		if entry.Exact() == view.Customer {
			view.History = append(view.History, entry)
		}
	}
	for _, o := range v.Look.Overrides {
		if o.Customer == view.Customer {
			view.Override = &o
		}
	}
	if v.Away {
		return
	}
	ctx, cancel := context.WithTimeout(v.request.Context(), patience)
	defer cancel()
	details, err := v.Look.Customer(ctx, view.Customer)
	switch {
	case errors.Is(err, priority.ErrCorrupt):
		view.Failure = v.text(err)
	case err != nil:
		v.note(err)
	default:
		state, table := details.State, tableOf("", details.Policy.Policy)
		table.At, table.Counts, table.Loads = state.RuleLevel, state.Rule != priority.ByLoad, state.Rule != priority.ByCount
		switch state.Rule {
		case priority.ByCount:
			table.Number = insight.Group(state.Count - 1)
		case priority.ByLoad:
			if table.Number = insight.Number(state); details.ByAccount {
				table.Number = "the account decides"
			}
		}
		view.Details, view.Override, view.Table = details, details.Override, table
	}
}
