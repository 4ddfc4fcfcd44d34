package page

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight"
)

// memberView is what another tier would do.
type memberView struct {
	Customer  string
	Tier      string
	Ends      bool
	HasPolicy bool
	Policy    priority.Policy
	Rows      []policyRow // of the tier's policy
	Present   *control.Item[string]
	Replaces  int64
	Found     *insight.Customer // nil: Failure says why
	Failure   string
	Override  *insight.Overridden
	Back      string
}

// previewMember shows by which table a customer would be decided.
func (v *visit) previewMember() {
	query := v.r.URL.Query()
	customer, err := customerOf(query)
	if err != nil {
		v.badCustomer(err)
		return
	}
	view := memberView{Customer: customer, Tier: query.Get("tier"), Ends: query.Get("kind") == ending, Back: customerURL("customer", customer)}
	inspector := v.inspector()
	if inspector.Document == nil {
		v.failed(v.fleet.inspector.known().err)
		return
	}
	if item, ok := memberOf(inspector, customer); ok {
		view.Present, view.Replaces = &item, item.Version
	} else if view.Ends {
		v.badRequest("No operator has set this customer's tier any more.", view.Back, "Back to the customer")
		return
	}
	if view.Ends {
		view.Tier = v.fleet.own.Store.Policies().TierOf(customer)
	}
	policies := inspector.Store.Policies()
	view.Policy, view.HasPolicy = policies.Tiers()[view.Tier]
	if !view.HasPolicy {
		view.Policy = policies.Policy()
	}
	view.Rows = rowsOf(view.Policy, 0, false)
	view.Override = inspector.OverrideOf(customer)
	if found := v.fleet.customers.get(v.reading, customer); found.err != nil || found.late {
		view.Failure = unread
		noteStale(v, found)
	} else {
		view.Found = found.value.Customer
		view.Rows = rowsOf(view.Policy, view.Found.Count, view.Found.Counted)
	}
	v.show(200, "member", insight.Shown(customer), view)
}

// member puts a customer into a tier, or leaves it to the workers' own TierOf.
func (v *visit) member() {
	form := v.form()
	customer, err := customerOf(form)
	if err != nil {
		v.badCustomer(err)
		return
	}
	back, link := customerURL("customer", customer), "Back to the customer"
	change, ok := v.change(back, link)
	if !ok {
		return
	}
	var version int64
	if form.Get("kind") == ending {
		version, err = v.fleet.own.Admin.EndMember(v.r.Context(), customer, change)
	} else {
		version, err = v.fleet.own.Admin.SetMember(v.r.Context(), customer, form.Get("tier"), change)
	}
	if err != nil {
		v.notChanged(err, back, link, func(inspector *insight.Inspector) []string {
			item, ok := memberOf(inspector, customer)
			if !ok {
				return []string{"No operator has set the customer's tier now."}
			}
			return []string{fmt.Sprintf("The tier is %s, by %s: %s", insight.Quoted(item.Value), insight.Shown(item.By), insight.Quoted(item.Why))}
		})
		return
	}
	v.led(customerURL("customer", customer, "done", strconv.FormatInt(version, 10)))
}

func sortedKeys[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }
