package page

import (
	"fmt"
	"strconv"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// apply sets the fleet's rules: to the rules that were sent, to an earlier version,
// or back to the workers' own options.
func (v *visit) apply() {
	change, ok := v.change("policy", "Policy")
	if !ok {
		return
	}
	version, err := v.applied(change)
	if err != nil {
		v.notChanged(err, "policy", "Policy", func(inspector *insight.Inspector) []string {
			item := inspector.Settings.Rules
			if item == nil {
				return []string{"Operators have set none now."}
			}
			return []string{fmt.Sprintf("It is %s: %s. %s", insight.ItemName(*item), insight.RulesSummary(item.Value), insight.Quoted(item.Why))}
		})
		return
	}
	v.cache.expire()
	if inspector, err := v.cache.now(v.r.Context()); err == nil {
		inspector.AwaitRules(v.r.Context(), version, setPolicy(inspector))
		v.cache.expire()
	}
	v.led("policy?done=" + strconv.FormatInt(version, 10))
}

func (v *visit) applied(change control.Change) (int64, error) {
	admin, form := v.cache.own.Admin, v.form()
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
}
