package page

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/insight"
)

// mostChanges is how many of the last changes are looked through for a customer's.
const mostChanges = 1000

// customerView shows all about a customer.
type customerView struct {
	look
	Customer string
	Age      string
	Rows     policyRows
	History  []insight.Logged
	Looked   int // how many changes were searched
	Commands []command
}

// look is what is known of a customer.
type look struct {
	Found    *insight.Customer // nil: it cannot be read
	Failure  string            // of a corrupt key
	Override *insight.Overridden
	at       time.Time
}

// command is a command of priorityctl to copy, and what it does.
type command struct{ Does, Line string }

func (v *visit) customer() (string, any) {
	customer := v.request.URL.Query().Get("c")
	if err := check.Customer(customer); err != nil {
		v.status = http.StatusBadRequest
		return "Name a customer of 1 to 512 bytes", customerView{}
	}
	inspector := v.inspector()
	known, ok := read(v, "customer "+customer, v.interval, func(ctx context.Context) (look, error) {
		return v.lookUp(ctx, inspector, customer)
	})
	view := customerView{look: known, Customer: customer}
	if known.Found != nil {
		view.Rows = rowsOf(known.Found.Policy.Policy)
		view.Rows.mark(known.Found)
		view.Age = insight.Span(time.Since(known.at).Round(time.Second))
	}
	changes := v.changes()
	view.Looked = len(changes)
	for _, entry := range changes {
		if entry.Name != nil && entry.Exact() == customer {
			view.History = append(view.History, entry)
		}
	}
	for _, each := range []command{
		{"Put the customer first, for four hours", "override set -level 1 -for 4h -why ''"},
		{"Give level 3 or an earlier one", "override set -not-later-than 3 -for 4h -why ''"},
		{"Give level 7 or a later one", "override set -not-earlier-than 7 -for 4h -why ''"},
		{"End the override", "override end -why ''"},
		{"Forget the count and the pending documents; this cannot be undone", "reset -why ''"},
	} {
		if ok && known.Override == nil && each.Does == "End the override" {
			continue
		}
		view.Commands = append(view.Commands, command{each.Does, v.own.CommandFor(customer, each.Line+v.redis)})
	}
	v.Refresh = v.interval
	return insight.Shown(customer), view
}

func (v *visit) lookUp(ctx context.Context, known *insight.Inspector, customer string) (look, error) {
	inspector := *known
	if reports, err := inspector.Reports(ctx); err == nil { // else it is not known how long others wait
		inspector.Waits = fleet.Add(reports).Waits
	}
	found := look{at: time.Now()}
	var err error
	if found.Found, err = inspector.Customer(ctx, customer); err == nil {
		found.Override = found.Found.Override
		return found, nil
	}
	if !errors.Is(err, priority.ErrCorrupt) {
		return look{}, err
	}
	found.Failure = v.text(err)
	found.Override, err = inspector.OverrideOf(ctx, customer)
	return found, err
}
