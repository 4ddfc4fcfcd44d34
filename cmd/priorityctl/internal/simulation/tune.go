package simulation

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"golang.org/x/sync/errgroup"
)

// Tuning searches the policy, and the way of counting, by which a workload's
// light customers wait least.
type Tuning struct {
	Workload *Workload // with the groups Light and Heavy
	Options  Options   // Policy and Lease are where the search begins
	Counting string    // Rule or Submit: what is used now
	// HeavyCost is how much longer than now the heavy customers may wait on
	// average, and the worst tenth of all customers: 0.1 is 10 %.
	HeavyCost float64
	// Progress, if not nil, is called after each run, from any goroutine.
	Progress func(done, of int)
}

// Choice is a way to decide levels, and what came of it.
type Choice struct {
	Counting string // Rule or Submit
	Policy   priority.Policy
	Measures Measures
}

// Candidates are the policies that are tried: all reset intervals, modes and
// tables with one another.
func Candidates(now priority.Policy) []priority.Policy {
	intervals := []time.Duration{5 * time.Minute, 10 * time.Minute, 25 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour}
	tables := [][]int64{
		priority.DefaultPolicy().Thresholds,
		{-2, -5, -10, -20, -40, -80, -160, -320},     // log-spaced, doubling
		{-1, -3, -10, -32, -100, -316, -1000, -3162}, // log-spaced, half a decade each
		{-10, -20, -30, -40, -50, -60, -70, -100},    // the default, five times as wide
		{-2, -10, -50, -250},
	}
	if !slices.Contains(intervals, now.ResetInterval) {
		intervals = append(intervals, now.ResetInterval)
	}
	if !slices.ContainsFunc(tables, func(table []int64) bool { return slices.Equal(table, now.Thresholds) }) {
		tables = append(tables, now.Thresholds)
	}
	var candidates []priority.Policy
	for _, interval := range intervals {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			for _, table := range tables {
				candidates = append(candidates, priority.Policy{Thresholds: table, ResetInterval: interval, ResetMode: mode})
			}
		}
	}
	return candidates
}

// Run returns what is now, and the choice with the shortest p99 wait of the light
// customers of all that do not cost the heavy ones too much. Of two that are
// equal the one with the shorter worst tenth is chosen.
func (t Tuning) Run(ctx context.Context) (now, best Choice, err error) {
	if err := t.Options.Validate(); err != nil {
		return now, best, err
	}
	choices := []Choice{{Counting: t.Counting, Policy: t.Options.Policy}}
	for _, policy := range Candidates(t.Options.Policy) {
		choices = append(choices, Choice{Counting: Rule, Policy: policy}, Choice{Counting: Submit, Policy: policy})
	}
	var done atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range choices {
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			options := t.Options
			options.Policy = choices[i].Policy
			scheduler, err := NewScheduler(choices[i].Counting, t.Workload, options, 0)
			if err != nil {
				return err
			}
			starts, err := Run(t.Workload, options.Servers, scheduler)
			if err != nil {
				return err
			}
			choices[i].Measures = measure(t.Workload, options.Servers, starts)
			if t.Progress != nil {
				t.Progress(int(done.Add(1)), len(choices))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return now, best, err
	}
	now = choices[0]
	if _, ok := now.Measures[lightP99]; !ok {
		return now, best, fmt.Errorf("no customer of the trace is light")
	}
	best = now
	for _, choice := range choices[1:] {
		if t.affordable(choice, now) && better(choice, best) {
			best = choice
		}
	}
	return now, best, nil
}

const (
	lightP99   = Light + "_wait_p99_s"
	heavyMean  = Heavy + "_wait_mean_s"
	worstTenth = "worst_tenth_wait_s"
)

func (t Tuning) affordable(choice, now Choice) bool {
	for _, measure := range []string{heavyMean, worstTenth} {
		if choice.Measures[measure] > now.Measures[measure]*(1+t.HeavyCost) {
			return false
		}
	}
	return true
}

func better(a, b Choice) bool {
	if a.Measures[lightP99] != b.Measures[lightP99] {
		return a.Measures[lightP99] < b.Measures[lightP99]
	}
	return a.Measures[worstTenth] < b.Measures[worstTenth]
}
