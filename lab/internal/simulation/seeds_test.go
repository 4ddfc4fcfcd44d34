package simulation

import (
	"context"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

var demand = Demand{Servers: 16, Service: ServiceTime{Mean: 2 * time.Second, CV: 1}}

// experiment returns one of a scenario.
func experiment(tb testing.TB, name string, seeds int, schedulers ...string) Experiment {
	tb.Helper()
	scenario, err := FindScenario(name)
	if err != nil {
		tb.Fatal(err)
	}
	return Experiment{
		Options: Options{
			Servers: demand.Servers, Policy: priority.DefaultPolicy(), LostDone: scenario.LostDone, Schedulers: schedulers,
		},
		Workload:  func(seed uint64) *Workload { return scenario.Workload(demand, seed) },
		FirstSeed: 1,
		Seeds:     seeds,
	}
}

func run(tb testing.TB, e Experiment) []Outcome {
	tb.Helper()
	outcomes, err := e.Run(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return outcomes
}

func TestFiguresDependOnTheSeedsAlone(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	outage := experiment(t, "outage", 1, Rule, Submit)
	e := experiment(t, "lost-done", 2, Schedulers()...)
	alone, away := run(t, e), run(t, outage)
	runtime.GOMAXPROCS(4)
	if !reflect.DeepEqual(alone, run(t, e)) || !reflect.DeepEqual(away, run(t, outage)) {
		t.Error("figures differ from run to run")
	}
	if alone[0].Measures["others_wait_p99_s"].Within == 0 {
		t.Error("all seeds are alike")
	}
	e.FirstSeed = 2
	if other := run(t, e); reflect.DeepEqual(alone[0].Measures, other[0].Measures) {
		t.Error("other seeds make no difference")
	}
}
