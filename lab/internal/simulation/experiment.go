package simulation

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Experiment is a workload drawn with several seeds, served by several
// schedulers.
type Experiment struct {
	Options
	Workload func(seed uint64) *Workload
	Seeds    int // at least 1; they begin with 1
}

// Outcome is what one scheduler made of all the workloads.
type Outcome struct {
	Scheduler string
	Measures  map[string]Estimate
}

// Estimate is a measure over the seeds.
type Estimate struct {
	Mean float64
	// Within is half the width of the 95 % confidence interval of the mean, by
	// Student's t. It is 0 with a single seed.
	Within float64
}

// Validate returns an error that says what is wrong, or nil.
func (e Experiment) Validate() error {
	if e.Seeds < 1 {
		return fmt.Errorf("%d seeds, not 1 at least", e.Seeds)
	}
	return e.Options.Validate()
}

// runAll runs several experiments, one after the other, with as many seeds at once
// as there are processors: that many workloads are in memory. What it returns, by
// experiment, depends on the seeds alone.
func runAll(ctx context.Context, experiments []Experiment) ([][]Outcome, error) {
	for _, e := range experiments {
		if err := e.Validate(); err != nil {
			return nil, err
		}
	}
	outcomes := make([][]Outcome, len(experiments))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, e := range experiments {
		measures := make([][]Measures, len(e.Schedulers)) // by scheduler and seed
		for s := range measures {
			measures[s] = make([]Measures, e.Seeds)
		}
		var seeds atomic.Int64
		for seed := range e.Seeds {
			group.Go(func() error {
				if err := e.runSeed(ctx, seed, measures); err != nil {
					return err
				}
				if seeds.Add(1) == int64(e.Seeds) {
					for s, name := range e.Schedulers {
						outcomes[i] = append(outcomes[i], Outcome{name, estimates(measures[s])})
					}
				}
				return nil
			})
		}
	}
	return outcomes, group.Wait()
}

// runSeed runs all schedulers with one seed, and fills in their measures.
func (e Experiment) runSeed(ctx context.Context, at int, measures [][]Measures) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	seed := uint64(at) + 1
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
		measures[s][at] = measure(work, e.Servers, starts)
	}
	return nil
}

// estimates returns the estimates of the measures that all seeds have.
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
