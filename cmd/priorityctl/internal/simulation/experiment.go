package simulation

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Experiment is a workload drawn with several seeds, served by several
// schedulers.
type Experiment struct {
	Options
	Workload  func(seed uint64) *Workload
	FirstSeed uint64
	Seeds     int // at least 1
	Targets   []Target
	// Progress, if not nil, is called after each run, from any goroutine.
	Progress func(done, of int)
}

// Outcome is what one scheduler made of all the workloads.
type Outcome struct {
	Scheduler string
	Measures  map[string]Estimate
	Series    Series // of the first seed
}

// Estimate is a measure over the seeds.
type Estimate struct {
	Mean float64
	// Within is half the width of the 95 % confidence interval of the mean, by
	// Student's t. It is 0 with a single seed.
	Within float64
}

// Run runs all seeds, as many at once as there are processors. What it returns
// depends on the seeds alone.
func (e Experiment) Run(ctx context.Context) ([]Outcome, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	measures := make([][]Measures, len(e.Schedulers)) // by scheduler and seed
	outcomes := make([]Outcome, len(e.Schedulers))
	for i, name := range e.Schedulers {
		measures[i] = make([]Measures, e.Seeds)
		outcomes[i].Scheduler = name
	}
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range e.Seeds {
		group.Go(func() error {
			seed := e.FirstSeed + uint64(i)
			work := e.Workload(seed)
			for s, name := range e.Schedulers {
				if err := ctx.Err(); err != nil {
					return err
				}
				scheduler, err := NewScheduler(name, work, e.Options, seed)
				if err != nil {
					return err
				}
				starts, err := Run(work, e.Servers, scheduler)
				if err != nil {
					return err
				}
				measures[s][i] = measure(work, e.Servers, starts)
				if i == 0 {
					outcomes[s].Series = newSeries(work, starts, scheduler)
				}
				if e.Progress != nil {
					e.Progress(int(done.Add(1)), e.Seeds*len(e.Schedulers))
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	compareMakespans(e.Schedulers, measures)
	for i := range outcomes {
		outcomes[i].Measures = estimates(measures[i])
	}
	return outcomes, nil
}

// compareMakespans adds the measure makespan_to_first_come, seed by seed, if
// first come is among the schedulers.
func compareMakespans(schedulers []string, measures [][]Measures) {
	first := slices.Index(schedulers, FirstCome)
	if first < 0 {
		return
	}
	for _, bySeed := range measures {
		for seed, m := range bySeed {
			m["makespan_to_first_come"] = m["makespan_s"] / measures[first][seed]["makespan_s"]
		}
	}
}

// estimates returns those of the measures that all seeds have.
func estimates(bySeed []Measures) map[string]Estimate {
	all := make(map[string]Estimate)
measures:
	for name := range bySeed[0] {
		values := make([]float64, len(bySeed))
		for i, measures := range bySeed {
			value, ok := measures[name]
			if !ok || math.IsNaN(value) {
				continue measures
			}
			values[i] = value
		}
		all[name] = estimate(values)
	}
	return all
}

func estimate(values []float64) Estimate {
	if len(values) == 1 {
		return Estimate{Mean: values[0]}
	}
	n := float64(len(values))
	mean, deviation := stat.MeanStdDev(values, nil)
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.975)
	return Estimate{Mean: mean, Within: t * deviation / math.Sqrt(n)}
}

// Result is a target, and what was reached.
type Result struct {
	Target
	Estimate Estimate
	// Reached says that the whole confidence interval is on the right side.
	Reached bool
}

// Compare compares outcomes with the targets that they can be compared with.
func Compare(targets []Target, outcomes []Outcome) []Result {
	byName := make(map[string]Outcome)
	for _, o := range outcomes {
		byName[o.Scheduler] = o
	}
	var results []Result
	for _, target := range targets {
		got, ok := byName[target.Scheduler].Measures[target.Measure]
		if !ok {
			continue
		}
		result := Result{Target: target, Estimate: got}
		if target.AtLeast {
			result.Reached = got.Mean-got.Within >= target.Value
		} else {
			result.Reached = got.Mean+got.Within <= target.Value
		}
		results = append(results, result)
	}
	return results
}
