package simulation

import (
	"reflect"
	"runtime"
	"testing"
)

// experiment returns one of a scenario.
func experiment(t *testing.T, name string, seeds int, schedulers ...string) Experiment {
	t.Helper()
	scenario, err := FindScenario(name)
	if err != nil {
		t.Fatal(err)
	}
	e := scenario.Regime().Experiment
	e.Seeds, e.Schedulers = seeds, schedulers
	return e
}

func run(t *testing.T, e Experiment) []Outcome {
	t.Helper()
	outcomes, err := runAll(t.Context(), []Experiment{e})
	if err != nil {
		t.Fatal(err)
	}
	return outcomes[0]
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
