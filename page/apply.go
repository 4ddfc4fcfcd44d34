package page

import (
	"fmt"
	"strconv"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight"
)

// apply makes rules those of the fleet: those that were sent, those of an earlier
// version, or the workers' own.
func (v *visit) apply() {
	admin, form := v.fleet.own.Admin, v.form()
	v.changePolicy(func(change control.Change) (int64, error) {
		switch form.Get("kind") {
		case "withdraw":
			return admin.Withdraw(v.r.Context(), change)
		case "rollback":
			version, err := strconv.ParseInt(form.Get("version"), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%w: there is no version %q", control.ErrNotFound, form.Get("version"))
			}
			return admin.Rollback(v.r.Context(), version, change)
		}
		rules, err := v.sentRules()
		if err != nil {
			return 0, err
		}
		return admin.Apply(v.r.Context(), rules, change)
	}, func(inspector *insight.Inspector) *control.Item[control.Rules] { return inspector.Document.Rules })
}

// trial puts rules on trial, or ends it.
func (v *visit) trial() {
	admin := v.fleet.own.Admin
	v.changePolicy(func(change control.Change) (int64, error) {
		if v.form().Get("kind") == ending {
			return admin.EndTrial(v.r.Context(), change)
		}
		rules, err := v.sentRules()
		if err != nil {
			return 0, err
		}
		return admin.Try(v.r.Context(), rules, change)
	}, func(inspector *insight.Inspector) *control.Item[control.Rules] { return inspector.Document.Trial })
}

// changePolicy makes a change, and leads to what holds then. What a conflict was about
// is shown by now.
func (v *visit) changePolicy(do func(control.Change) (int64, error), now func(*insight.Inspector) *control.Item[control.Rules]) {
	change, ok := v.change("policy", "Policy")
	if !ok {
		return
	}
	version, err := do(change)
	if err != nil {
		v.notChanged(err, "policy", "Policy", func(inspector *insight.Inspector) []string {
			item := now(inspector)
			if item == nil {
				return []string{"Operators have set none now."}
			}
			return []string{fmt.Sprintf("It is %s: %s. %s", insight.ItemName(*item), insight.RulesSummary(item.Value), insight.Quoted(item.Why))}
		})
		return
	}
	v.led("policy?done=" + strconv.FormatInt(version, 10))
}
