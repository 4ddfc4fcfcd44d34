//go:build !race

package simulation

import (
	"slices"
	"testing"
)

// What the module promises of its own scenarios. A bound holds for each of the first ten seeds; the
// matrix has the others, and all with 20 seeds.
func TestTargets(t *testing.T) {
	type target struct {
		scheduler, measure, relation string
		bound                        float64
	}
	for _, test := range []struct {
		scenario string
		targets  []target
	}{
		{"steady-flood", []target{{Submit, othersP99, "≤", 2.2}, {SubmitTurns, othersP99, "≤", 2.2}}},
		{"big-customer", []target{{Submit, othersP99, "≤", 2.6}}},
		{"second-flood", []target{{Submit, secondMean, "≤", 1150}, {SubmitTurns, secondMean, "≤", 520}}},
		{"batches", []target{{Submit, othersP99, "≤", 13}}},
		{"overload-wide", []target{{Submit, smallestShare, "≥", 0.8}}},
		{"cost-skew", []target{{Submit, othersP99, "≤", 95}}},
		{"lost-done", []target{{Submit, othersP99, "≤", 2.3}, {ByHand, othersP99, "≥", 1000}}},
		{"many-ids", []target{{"submit+accounts", othersP99, "≤", 5}, {Submit, othersP99, "≥", 1000}}},
		{"own-order", []target{{"submit+order", Flooder + "_overtaken", "≤", 0}, {"submit+order", Flooder + "_wait_max_s", "≤", 340}, {Submit, Flooder + "_overtaken", "≥", 0.1}}},
		{"slices", []target{{Submit, finishedRatio, "≥", 1}}},
	} {
		t.Run(test.scenario, func(t *testing.T) {
			e := experiment(t, test.scenario, 1)
			for _, target := range test.targets {
				if !slices.Contains(e.Schedulers, target.scheduler) {
					e.Schedulers = append(e.Schedulers, target.scheduler)
				}
			}
			for _, outcome := range run(t, e) {
				for _, target := range test.targets {
					got, ok := outcome.Measures[target.measure]
					if target.scheduler == outcome.Scheduler && (!ok || got.Mean != target.bound && (got.Mean > target.bound) != (target.relation == "≥")) {
						t.Errorf("%s: %s is %v, to be %s %v", target.scheduler, target.measure, got, target.relation, target.bound)
					}
				}
			}
		})
	}
}

func TestOptions_Validate(t *testing.T) {
	for _, o := range []Options{
		{Servers: 0, Schedulers: []string{Rule}},
		{Servers: 1, Schedulers: []string{"rule:magic"}},
		{Servers: 1, Schedulers: []string{"rule:3:0"}},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, name := range []string{"magic", "submit@0", "submit@43", "submit@9", "rule*weight", "rule+delay", "submit+guess"} {
		if _, err := NewScheduler(name, newWorkload(nil), Options{Servers: 1}, 1); err == nil {
			t.Errorf("%q is a scheduler", name)
		}
	}
}
