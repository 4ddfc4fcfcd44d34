package simulation

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/docpriority/priority"
)

// Regime is what ways to schedule are compared under: a scenario, or a trace with
// a number of servers. One with Schedulers of its own is in no score.
type Regime struct {
	Name    string
	Figures []Figure
	Experiment
}

// Regime returns the scenario, without seeds.
func (s Scenario) Regime() Regime {
	return Regime{s.Name, s.Figures, Experiment{
		Options:  Options{Servers: s.servers(), Policy: priority.DefaultPolicy(), LostDone: s.LostDone, Schedulers: s.Schedulers},
		Workload: s.Workload,
	}}
}

// Regime returns the trace on a number of servers, without seeds.
func (t *Trace) Regime(servers int, how TraceOptions) Regime {
	return Regime{
		fmt.Sprintf("trace-%d", servers),
		[]Figure{{Measure: lightP99}, {Measure: worstTenth}},
		Experiment{
			Options:  Options{Servers: servers, Policy: priority.DefaultPolicy()},
			Workload: func(seed uint64) *Workload { return t.Workload(how, seed) },
		},
	}
}

// Matrix is what ways to schedule came to under several regimes.
type Matrix struct {
	Schedulers []string
	Rows       []Row   // the figures of all regimes
	Scores     []Score // of the Schedulers; nil if the regimes have schedulers of their own
}

// Row is one figure of a regime under all schedulers.
type Row struct {
	Regime Regime
	Figure Figure
	Cells  []Cell // by Matrix.Schedulers
	Ideal  Cell   // the best of Informed, where there is a score
}

// Cell is what one scheduler came to under a regime.
type Cell struct {
	Scheduler string
	Estimate          // of the row's figure; NaN if there is none
	Ratio     float64 // to ideal, 1 if equal, more if worse; NaN where ideal is 0
}

// Score is the geometric mean, over all rows, of the scheduler's ratio to ideal, of
// 1 at least: to be better than ideal here makes up for nothing there.
type Score struct {
	Scheduler string
	Value     float64
}

// Compete runs all schedulers under all regimes, and those that are needed to say what is ideal.
// Regimes with schedulers of their own are run by these, and have a matrix for each list of them.
func Compete(ctx context.Context, regimes []Regime, schedulers []string) (all []Matrix, err error) {
	everybody := slices.Concat(schedulers, Informed())
	slices.Sort(everybody)
	everybody = slices.Compact(everybody)
	experiments := make([]Experiment, len(regimes))
	for i, regime := range regimes {
		experiments[i] = regime.Experiment
		if regime.Schedulers == nil {
			experiments[i].Schedulers = everybody
		}
	}
	outcomes, err := runAll(ctx, experiments)
	if err != nil {
		return nil, err
	}
	scored, own := Matrix{Schedulers: schedulers}, []Matrix(nil)
	for i, regime := range regimes {
		byName := make(map[string]Outcome)
		for _, outcome := range outcomes[i] {
			byName[outcome.Scheduler] = outcome
		}
		into := &scored
		if regime.Schedulers != nil {
			if n := len(own); n == 0 || !slices.Equal(own[n-1].Schedulers, regime.Schedulers) {
				own = append(own, Matrix{Schedulers: regime.Schedulers})
			}
			into = &own[len(own)-1]
		}
		for _, figure := range regime.Figures {
			into.Rows = append(into.Rows, newRow(regime, figure, into.Schedulers, byName))
		}
	}
	if len(scored.Rows) == 0 {
		return own, nil
	}
	for i, name := range schedulers {
		scored.Scores = append(scored.Scores, Score{name, scored.score(i)})
	}
	return append([]Matrix{scored}, own...), nil
}

func newRow(regime Regime, figure Figure, schedulers []string, outcomes map[string]Outcome) Row {
	cells := func(names []string) []Cell {
		cells := make([]Cell, len(names))
		for i, name := range names {
			cells[i] = Cell{Scheduler: name, Estimate: Estimate{math.NaN(), math.NaN()}}
			if estimate, ok := outcomes[name].Measures[figure.Measure]; ok {
				cells[i].Estimate = estimate
			}
		}
		return cells
	}
	row := Row{Regime: regime, Figure: figure, Cells: cells(schedulers)}
	row.Ideal = figure.best(cells(Informed()))
	for i := range row.Cells {
		row.Cells[i].Ratio = figure.ratio(row.Cells[i].Mean, row.Ideal.Mean)
	}
	return row
}

// best returns the cell with the best mean, of equals the first.
func (f Figure) best(cells []Cell) Cell {
	return slices.MinFunc(cells, func(a, b Cell) int {
		if f.MoreIsBetter {
			a, b = b, a
		}
		return cmp.Compare(a.Mean, b.Mean)
	})
}

// ratio says how much worse a mean is than the ideal one.
func (f Figure) ratio(mean, ideal float64) float64 {
	switch {
	case ideal <= 0:
		return math.NaN()
	case f.MoreIsBetter:
		return ideal / mean
	}
	return mean / ideal
}

// score is of the i-th scheduler. It leaves out the rows without a ratio.
func (m Matrix) score(i int) float64 {
	sum, rows := 0.0, 0
	for _, row := range m.Rows {
		if r := row.Cells[i].Ratio; !math.IsNaN(r) {
			sum += math.Log(max(r, 1))
			rows++
		}
	}
	if rows == 0 {
		return math.NaN()
	}
	return math.Exp(sum / float64(rows))
}
