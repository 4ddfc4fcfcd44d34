package simulation

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Scenario is a workload by name, drawn anew for each seed.
type Scenario struct {
	Name    string
	Summary string // one sentence
	// LostDone and Schedulers are what the scenario is about where the options do
	// not say.
	LostDone   float64
	Schedulers []string
	Targets    []Target

	build func(*drawing)
}

// Target is what a scheduler is to reach.
type Target struct {
	Scheduler string
	Measure   string
	AtLeast   bool // or at most
	Value     float64
}

// Demand says how much there is to do in a scenario.
type Demand struct {
	Servers int // the load is relative to them
	Service ServiceTime
	Flood   int // documents of a flood; 0: the scenario's own number
}

// warmUp is how long the customers send before what the scenario is about
// begins.
const warmUp = 2 * time.Hour

// Streams of random numbers of one seed.
const (
	streamOfArrivals = iota
	streamOfServices
	streamOfFlood
	streamOfLosses
)

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	return []Scenario{
		{
			Name:    "steady-flood",
			Summary: "200 steady customers (Zipf 1.0) at 60 % load; one more uploads 10,000 documents at once",
			Targets: []Target{
				{Scheduler: Submit, Measure: "others_wait_p99_s", Value: 2},
				{Scheduler: Submit, Measure: "makespan_to_first_come", Value: 1.01},
			},
			build: func(d *drawing) { d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "occasional-flood",
			Summary: "20,000 equal occasional customers at 60 % load; one more uploads 10,000 documents at once",
			Targets: []Target{
				{Scheduler: Rule, Measure: "others_wait_p99_s", Value: 1.6},
				{Scheduler: Submit, Measure: "others_wait_p99_s", Value: 1.6},
			},
			build: func(d *drawing) { d.steady(20_000, 0, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "trickle-flood",
			Summary: "200 steady customers (Zipf 1.0) at 60 % load; one more sends 20,000 documents at 8/s",
			Targets: []Target{{Scheduler: Submit, Measure: "others_wait_p99_s", Value: 3}},
			build:   func(d *drawing) { d.steady(200, 1, 0.6); d.flood(20_000, 8) },
		},
		{
			Name:    "overload",
			Summary: "20 customers (Zipf 1.0) at 150 % load",
			Targets: []Target{{Scheduler: Submit, Measure: "jain", AtLeast: true, Value: 0.97}},
			build:   func(d *drawing) { d.steady(20, 1, 1.5); d.measure(warmUp, time.Hour) },
		},
		{
			Name: "starve",
			Summary: "new customers send one document each, all of level 1, at 105 % load for 7000 s; " +
				"at 500 s another customer sends 200 documents",
			Schedulers: append(Schedulers(), "rule:linear", "submit:linear", "rule:halving", "submit:halving"),
			Targets: []Target{
				{Scheduler: "rule:linear", Measure: "flooder_wait_max_s", Value: 300},
				{Scheduler: "submit:linear", Measure: "flooder_wait_max_s", Value: 300},
			},
			build: func(d *drawing) { d.measure(0, 7000*time.Second); d.strangers(1.05); d.burst(200, 500*time.Second) },
		},
		{
			Name:     "lost-done",
			Summary:  "as steady-flood; 1 % of the Dones are lost",
			LostDone: 0.01,
			Targets:  []Target{{Scheduler: Submit, Measure: "others_wait_p99_s", Value: 5}},
			build:    func(d *drawing) { d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name: "cost-skew",
			Summary: "50 equal customers at 60 % load; for 70 minutes one more sends documents of 100 s, " +
				"enough for 10 of 16 servers",
			Targets: []Target{{Scheduler: Submit, Measure: "others_wait_p99_s", Value: 80}},
			build:   func(d *drawing) { d.steady(50, 0, 0.6); d.heavy(100*time.Second, 10./16, 70*time.Minute) },
		},
		{
			Name:    "pauser",
			Summary: "as steady-flood, and one customer sends 20 documents every 1501 s",
			Targets: []Target{{Scheduler: Submit, Measure: "pauser_to_others_p50", AtLeast: true, Value: 1}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.flood(10_000, 0)
				d.pauser(20, 1501*time.Second)
			},
		},
	}
}

// FindScenario returns a scenario by its name.
func FindScenario(name string) (Scenario, error) {
	var names []string
	for _, s := range Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	return Scenario{}, fmt.Errorf("there is no scenario %q; there are %v", name, names)
}

// Workload draws the scenario's workload.
func (s Scenario) Workload(demand Demand, seed uint64) *Workload {
	source := rand.NewPCG(seed, streamOfServices)
	d := &drawing{
		demand:   demand,
		work:     newWorkload(nil),
		arrivals: rand.New(rand.NewPCG(seed, streamOfArrivals)),
		extra:    rand.New(rand.NewPCG(seed, streamOfFlood)),
		service:  demand.Service.drawer(source),
	}
	s.build(d)
	for _, arrive := range d.arrive {
		arrive()
	}
	d.work.sort()
	return d.work
}
