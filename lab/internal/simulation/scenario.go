package simulation

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Scenario is a workload by name, drawn anew for each seed.
type Scenario struct {
	Name       string
	Summary    string // one sentence
	Servers    int    // 0: 16
	LostDone   float64
	Schedulers []string // those that it is about; nil: those of the matrix
	Figures    []Figure

	build func(*drawing)
}

// Figure is a measure that a scenario is about.
type Figure struct {
	Measure      string
	MoreIsBetter bool
}

// warmUp is how long the customers send before what the scenario is about
// begins.
const (
	warmUp       = 2 * time.Hour
	usualServers = 16
	middle       = warmUp + 20*time.Minute // of a flood that trickles
)

// Streams of random numbers of one seed.
const (
	streamOfArrivals = iota
	streamOfServices
	streamOfFlood
	streamOfLosses
	_
	streamOfPicks
)

// Scenarios returns all scenarios.
func Scenarios() []Scenario {
	return slices.Concat(floods(), overloads(), troubles(), untried(), paid(), realQueues())
}

// floods are those in which one customer suddenly sends far more than all others.
func floods() []Scenario {
	return []Scenario{
		{
			Name:    "steady-flood",
			Summary: "200 steady customers (Zipf 1.0) at 60 % load; one more uploads 10,000 documents at once",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "occasional-flood",
			Summary: "20,000 equal occasional customers at 60 % load; one more uploads 10,000 documents at once",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(20_000, 0, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "trickle-flood",
			Summary: "200 steady customers (Zipf 1.0) at 60 % load; one more sends 20,000 documents at 8/s",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(200, 1, 0.6); d.flood(20_000, 8) },
		},
		{
			Name:    "many-servers",
			Summary: "as steady-flood, with as many customers on 64 servers",
			Servers: 64,
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name: "big-customer",
			Summary: "one steady customer with 30 % of the load and 200 (Zipf 1.0) with another 30 %; " +
				"one more uploads 10,000 documents at once",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(1, 0, 0.3); d.steady(200, 1, 0.3); d.flood(10_000, 0) },
		},
		{
			Name:    "batches",
			Summary: "as steady-flood, but the steady customers send 5 documents at a time",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.batches = 5; d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "second-flood",
			Summary: "as steady-flood, and five minutes later another customer uploads 2,000 documents",
			Figures: []Figure{{Measure: secondMean}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.flood(10_000, 0)
				d.burst(Second, 2000, warmUp+5*time.Minute)
			},
		},
	}
}

// overloads are those in which there is more to do than the servers can.
func overloads() []Scenario {
	return []Scenario{
		{
			Name:    "overload",
			Summary: "20 customers (Zipf 1.0) at 150 % load",
			Figures: []Figure{{Measure: jainIndex, MoreIsBetter: true}, {Measure: smallestShare, MoreIsBetter: true}},
			build:   func(d *drawing) { d.steady(20, 1, 1.5); d.measure(warmUp, time.Hour) },
		},
		{
			Name:    "overload-equal",
			Summary: "20 equal customers at 150 % load",
			Figures: []Figure{{Measure: jainIndex, MoreIsBetter: true}},
			build:   func(d *drawing) { d.steady(20, 0, 1.5); d.measure(warmUp, time.Hour) },
		},
		{
			Name:    "overload-wide",
			Summary: "200 customers (Zipf 1.0) at 120 % load",
			Figures: []Figure{{Measure: smallestShare, MoreIsBetter: true}},
			build:   func(d *drawing) { d.steady(200, 1, 1.2); d.measure(warmUp, time.Hour) },
		},
		{
			Name: "long-overload",
			Summary: "12 customers (Zipf 1.0) send two servers documents of 10 times the mean for hours, at 120 % load; " +
				"200 more send 1 to 20 now and then, at another 20 %",
			Servers: 2,
			Figures: []Figure{{Measure: lightestP99}, {Measure: worstTenth}},
			build: func(d *drawing) {
				d.measure(warmUp, 6*time.Hour)
				d.times(10, func() { d.steady(12, 1, 1.2); d.bursts(200, 20, 0.2) })
			},
		},
		{
			Name:    "overload-cost",
			Summary: "20 customers at 150 % load send equally often; the i-th customer's documents take 1/i as long as the first one's",
			Figures: []Figure{{Measure: jainIndex, MoreIsBetter: true}},
			build:   func(d *drawing) { d.unequal(20, 1, 1.5); d.measure(warmUp, time.Hour) },
		},
		{
			Name: "cost-skew",
			Summary: "50 equal customers at 60 % load; for 70 minutes one more sends documents that take 50 times as long, " +
				"enough for 10 of 16 servers",
			Figures: []Figure{{Measure: othersP99}},
			build:   func(d *drawing) { d.steady(50, 0, 0.6); d.heavy(50*usualService, 10./16, 70*time.Minute) },
		},
	}
}

// troubles are those in which something fails.
func troubles() []Scenario {
	return []Scenario{
		{
			Name:     "lost-done",
			Summary:  "as steady-flood, after twelve hours of which 1 % of the Dones are lost",
			LostDone: 0.01,
			Figures:  []Figure{{Measure: othersP99}},
			build:    func(d *drawing) { d.warmUp = 12 * time.Hour; d.steady(200, 1, 0.6); d.flood(10_000, 0) },
		},
		{
			Name:    "outage",
			Summary: "as trickle-flood; Redis cannot be reached for a minute in the middle of the flood, and a fallback answers",
			Figures: []Figure{{Measure: othersP99}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.flood(20_000, 8)
				d.work.Outage = Span{middle, middle + time.Minute}
			},
		},
		{
			Name:    "failover",
			Summary: "as trickle-flood; in the middle of the flood a replica takes over that lacks the writes of the last 5 s",
			Figures: []Figure{{Measure: othersP99}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.flood(20_000, 8)
				d.work.Failover = Span{middle - 5*time.Second, middle}
			},
		},
	}
}

// untried are those that nothing was tuned on.
func untried() []Scenario {
	return []Scenario{
		{
			Name: "bursts",
			Summary: "60 customers send bursts of 1 to 1,000 documents, small ones more often, at 80 % load; " +
				"all of them are measured",
			Figures: []Figure{{Measure: "others_wait_p50_s"}, {Measure: "lightest_half_wait_mean_s"}},
			build:   func(d *drawing) { d.measure(warmUp, 2*time.Hour); d.bursts(60, 1000, 0.8) },
		},
		{
			Name:    "rush-hour",
			Summary: "100 customers (Zipf 1.0) at 40 % load, and at 140 % for the first hour of the two that are measured",
			Figures: []Figure{{Measure: lightestP99}, {Measure: worstTenth}},
			build: func(d *drawing) {
				d.measure(warmUp, 2*time.Hour)
				d.steady(100, 1, 0.4)
				d.rush(100, 1, 1, warmUp, warmUp+time.Hour)
			},
		},
		{
			Name: "short-and-long",
			Summary: "100 steady customers with documents of a tenth of the mean and 20 with documents of 5 times the mean, " +
				"30 % load each; one more uploads 20,000 short ones",
			Figures: []Figure{{Measure: othersP99}, {Measure: lightestP99}},
			build: func(d *drawing) {
				d.times(0.1, func() { d.steady(100, 0, 0.3) })
				d.times(5, func() { d.steady(20, 0, 0.3) })
				d.times(0.1, func() { d.flood(20_000, 0) })
			},
		},
	}
}

// paid are those in which some customers pay for a larger share: ten have the weight 1, six 3, and
// four 10.
func paid() []Scenario {
	schedulers := []string{FirstCome, Submit, "submit*weight"}
	return []Scenario{
		{
			Name:       "tiers",
			Summary:    "20 equal customers of the weights 1, 3 and 10 at 400 % load, all above their share",
			Schedulers: schedulers,
			Figures:    []Figure{{Measure: "weight_1_share"}, {Measure: "weight_3_share"}, {Measure: "weight_10_share"}},
			build:      func(d *drawing) { d.steady(20, 0, 4); d.weigh(); d.measure(warmUp, time.Hour) },
		},
		{
			Name:       "tiers-calm",
			Summary:    "20 customers (Zipf 1.0) of the weights 1, 3 and 10 at 60 % load; one more, of weight 1, uploads 10,000 documents at once",
			Schedulers: schedulers,
			Figures:    []Figure{{Measure: "weight_1_wait_p99_s"}, {Measure: "weight_3_wait_p99_s"}, {Measure: "weight_10_wait_p99_s"}},
			build:      func(d *drawing) { d.steady(20, 1, 0.6); d.weigh(); d.flood(10_000, 0) },
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

func (s Scenario) servers() int { return cmp.Or(s.Servers, usualServers) }

// Workload draws the scenario's workload.
func (s Scenario) Workload(seed uint64) *Workload {
	d := &drawing{
		servers:  s.servers(),
		work:     newWorkload(nil),
		arrivals: rand.New(rand.NewPCG(seed, streamOfArrivals)),
		extra:    rand.New(rand.NewPCG(seed, streamOfFlood)),
		service:  serviceTimes(seed),
		length:   1,
		warmUp:   warmUp,
		batches:  1,
		ids:      1,
	}
	s.build(d)
	for _, arrive := range d.arrive {
		arrive()
	}
	d.work.sort()
	return d.work
}
