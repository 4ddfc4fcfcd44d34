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
	Found    *insight.Customer // nil: it cannot be read
	Failure  string            // of a corrupt key
	Override *insight.Override
	Table    rows
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
			view.Commands = append(view.Commands, command{each.Does, v.inspector.CommandFor(view.Customer, each.Line+v.redis)})
		}
	}
	return insight.Shown(view.Customer), view
}

func (view *customerView) read(v *visit) {
	for _, entry := range v.Look.Changes {
		if entry.Name != nil && entry.Exact() == view.Customer {
			view.History = append(view.History, entry)
		}
	}
	for _, o := range v.Look.Overrides {
		if o.Exact() == view.Customer {
			view.Override = o
		}
	}
	if v.Away {
		return
	}
	ctx, cancel := context.WithTimeout(v.request.Context(), patience)
	defer cancel()
	known, err := v.Look.Customer(ctx, view.Customer)
	switch {
	case errors.Is(err, priority.ErrCorrupt):
		view.Failure = v.text(err)
	case err != nil:
		v.note(err)
	default:
		view.Found, view.Override = known, known.Override
		view.Table = rows{insight.Rows(known.Policy.Policy), !known.ByLoad(), !known.ByCount(), known.RuleLevel, ""}
		switch {
		case known.ByCount():
			view.Table.Number = insight.Group(known.Count - 1)
		case known.ByLoad():
			view.Table.Number = known.Number()
		}
	}
}
