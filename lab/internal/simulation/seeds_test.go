package simulation

import (
	"context"
	"reflect"
	"runtime"
	"testing"
)

// regimes returns the regimes of scenarios by their names.
func regimes(tb testing.TB, seeds int, names ...string) (all []Regime) {
	tb.Helper()
	for _, name := range names {
		scenario, err := FindScenario(name)
		if err != nil {
			tb.Fatal(err)
		}
		regime := scenario.Regime()
		regime.Seeds = seeds
		all = append(all, regime)
	}
	return all
}

// experiment returns one of a scenario.
func experiment(tb testing.TB, name string, seeds int, schedulers ...string) Experiment {
	tb.Helper()
	e := regimes(tb, seeds, name)[0].Experiment
	e.Schedulers = schedulers
	return e
}

func run(tb testing.TB, e Experiment) []Outcome {
	tb.Helper()
	outcomes, err := e.Run(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return outcomes
}

func TestExperiment_Deterministic(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	e := experiment(t, "long-overload", 2, Submit, ByHand)
	e.Options.LostDone = 0.01
	alone := run(t, e)
	runtime.GOMAXPROCS(4)
	if !reflect.DeepEqual(alone, run(t, e)) {
		t.Error("figures differ from run to run")
	}
	if alone[0].Measures[lightestP99].Within == 0 {
		t.Error("all seeds are alike")
	}
}
