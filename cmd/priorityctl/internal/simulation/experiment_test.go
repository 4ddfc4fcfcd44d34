package simulation

import (
	"context"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

var demand = Demand{Servers: 16, Service: ServiceTime{Shape: Lognormal, Mean: 2 * time.Second, CV: 1}}

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
		Targets:   scenario.Targets,
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
	e := experiment(t, "lost-done", 2, Schedulers()...)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	alone := run(t, e)
	runtime.GOMAXPROCS(4)
	together := run(t, e)
	for i := range alone {
		if !reflect.DeepEqual(alone[i].Measures, together[i].Measures) {
			t.Errorf("%s differs from run to run:\n%v\n%v", alone[i].Scheduler, alone[i].Measures, together[i].Measures)
		}
	}
	if alone[0].Measures["others_wait_p99_s"].Within == 0 {
		t.Error("all seeds are alike")
	}
	e.FirstSeed = 2
	if other := run(t, e); reflect.DeepEqual(alone[0].Measures, other[0].Measures) {
		t.Error("other seeds make no difference")
	}
}

// The scenarios are what their descriptions say.
func TestScenariosAreWhatTheySay(t *testing.T) {
	for _, test := range []struct {
		name                 string
		customers, documents int // of the flooder
		load                 float64
		from, to             time.Duration
	}{
		{"steady-flood", 201, 10_000, 0.6, 2 * time.Hour, 3 * time.Hour},
		{"occasional-flood", 20_001, 10_000, 0.6, 2 * time.Hour, 3 * time.Hour},
		{"trickle-flood", 201, 20_000, 0.6, 2 * time.Hour, 4 * time.Hour},
		{"overload", 20, 0, 1.5, 2 * time.Hour, 3 * time.Hour},
		{"lost-done", 201, 10_000, 0.6, 2 * time.Hour, 3 * time.Hour},
		{"cost-skew", 51, 420, 0.6, 2 * time.Hour, 2*time.Hour + 70*time.Minute},
		{"pauser", 202, 10_000, 0.6, 2 * time.Hour, 3 * time.Hour},
		{"starve", 1 + 58_800, 200, 1.05, 0, 7000 * time.Second},
	} {
		scenario, err := FindScenario(test.name)
		if err != nil {
			t.Fatal(err)
		}
		w := scenario.Workload(demand, 1)
		if !slices.IsSortedFunc(w.Documents, func(a, b Document) int { return int(a.Submitted - b.Submitted) }) {
			t.Errorf("%s: documents are not in order", test.name)
		}
		var flood int
		var offered time.Duration
		for _, d := range w.Documents {
			switch w.Groups[w.GroupOf[d.Customer]] {
			case Flooder:
				flood++
			case Others:
				offered += d.Service
			}
		}
		load := offered.Seconds() / w.To.Seconds() / float64(demand.Servers)
		near := func(a, b, within float64) bool { return math.Abs(a-b) <= within*b }
		if !near(float64(len(w.Customers)), float64(test.customers), 0.02) || !near(load, test.load, 0.03) ||
			!near(float64(flood), float64(test.documents), 0.1) || w.From != test.from || w.To.Round(10*time.Minute) != test.to.Round(10*time.Minute) {
			t.Errorf("%s: %d customers, load %.3f, flood of %d, measured from %v to %v; want %+v",
				test.name, len(w.Customers), load, flood, w.From, w.To, test)
		}
	}
}

// What the module promises of its own scenarios, with few seeds.
func TestTheModuleReachesItsTargets(t *testing.T) {
	for name, scheduler := range map[string][]string{
		"steady-flood":     {FirstCome, Submit},
		"occasional-flood": {Rule, Submit},
		"trickle-flood":    {Submit},
		"starve":           {"rule:linear", "submit:linear"},
		"lost-done":        {Submit},
		"pauser":           {Submit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := experiment(t, name, 2, scheduler...)
			results := Compare(e.Targets, run(t, e))
			if len(results) != len(e.Targets) {
				t.Errorf("%d results of %d targets", len(results), len(e.Targets))
			}
			for _, v := range results {
				if within := v.Value - v.Estimate.Mean; within < 0 != v.AtLeast {
					t.Errorf("%s: %s is %v, target %v", v.Scheduler, v.Measure, v.Estimate.Mean, v.Value)
				}
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Servers: 0, Schedulers: []string{Rule}},
		{Servers: 1},
		{Servers: 1, Schedulers: []string{"magic"}},
		{Servers: 1, Schedulers: []string{"rule:magic"}},
		{Servers: 1, Schedulers: []string{Rule}, Discipline: "3,0"},
		{Servers: 1, Schedulers: []string{Submit}, Lease: -1},
		{Servers: 1, Schedulers: []string{Rule}, LostDone: 1.5},
		{Servers: 1, Schedulers: []string{Rule}, LostDone: math.NaN()},
	} {
		if o.Validate() == nil {
			t.Errorf("%+v is taken", o)
		}
	}
	for _, s := range []ServiceTime{{}, {Shape: Fixed}, {Shape: Lognormal, Mean: 1}, {Shape: "odd", Mean: 1}} {
		if s.Validate() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}

func TestServiceTimesHaveTheirMeanAndVariation(t *testing.T) {
	for _, s := range []struct {
		ServiceTime
		cv float64
	}{
		{ServiceTime{Lognormal, 2 * time.Second, 1}, 1},
		{ServiceTime{Lognormal, 2 * time.Second, 0.3}, 0.3},
		{ServiceTime{Exponential, time.Second, 0}, 1},
		{ServiceTime{Fixed, time.Minute, 0}, 0},
	} {
		draw := s.drawer(rand.NewPCG(1, 2))
		const n = 200_000
		var sum, squares float64
		for range n {
			x := draw().Seconds()
			sum += x
			squares += x * x
		}
		mean := sum / n
		cv := math.Sqrt(max(squares/n-mean*mean, 0)) / mean
		if math.Abs(mean/s.Mean.Seconds()-1) > 0.02 || math.Abs(cv-s.cv) > 0.03 {
			t.Errorf("%v: mean %v, CV %v", s.ServiceTime, mean, cv)
		}
	}
}

// One operation is a million documents of a scenario, on one processor.
func BenchmarkMillionDocuments(b *testing.B) {
	scenario, err := FindScenario("steady-flood")
	if err != nil {
		b.Fatal(err)
	}
	big := demand
	big.Flood = 355_000
	w := scenario.Workload(big, 1)
	b.ReportMetric(float64(len(w.Documents)), "documents")
	for _, name := range Schedulers() {
		b.Run(name, func(b *testing.B) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
			for b.Loop() {
				scheduler, err := NewScheduler(name, w, Options{}, 1)
				if err != nil {
					b.Fatal(err)
				}
				starts, err := Run(w, demand.Servers, scheduler)
				if err != nil {
					b.Fatal(err)
				}
				measure(w, demand.Servers, starts)
			}
			b.ReportMetric(float64(len(w.Documents)), "documents")
		})
	}
}

func TestTheFirstCustomerSendsZipfsShare(t *testing.T) {
	for name, want := range map[string]float64{"steady-flood": 1 / 5.878, "overload": 1 / 3.598, "cost-skew": 1. / 50} {
		scenario, err := FindScenario(name)
		if err != nil {
			t.Fatal(err)
		}
		w := scenario.Workload(demand, 1)
		var all, first float64
		for _, d := range w.Documents {
			switch {
			case w.Customers[d.Customer] == "c1":
				first++
				fallthrough
			case w.GroupOf[d.Customer] == 0:
				all++
			}
		}
		if got := first / all; math.Abs(got/want-1) > 0.05 {
			t.Errorf("%s: the first customer sends %.4f of the documents, want %.4f", name, got, want)
		}
	}
}
