//go:build !race

package simulation

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/docpriority/priority"
)

// regimes returns the regimes of scenarios by their names.
func regimes(tb testing.TB, seeds int, names ...string) (all []Regime) {
	tb.Helper()
	for _, name := range names {
		scenario, err := FindScenario(name)
		if err != nil {
			tb.Fatal(err)
		}
		regime := scenario.Regime(Options{Policy: priority.DefaultPolicy()}, demand.Service)
		regime.FirstSeed, regime.Seeds = 1, seeds
		all = append(all, regime)
	}
	return all
}

func compete(tb testing.TB, regimes []Regime, schedulers ...string) Matrix {
	tb.Helper()
	m, err := Compete(tb.Context(), regimes, schedulers)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestEveryRegimeHasItsFiguresAndServers(t *testing.T) {
	for name, servers := range map[string]int{"overload": 16, "many-servers": 64} {
		m := compete(t, regimes(t, 1, name), FirstCome, Submit)
		if len(m.Rows) != len(m.Rows[0].Regime.Figures) || m.Rows[0].Regime.Servers != servers {
			t.Errorf("%s: %d rows on %d servers", name, len(m.Rows), m.Rows[0].Regime.Servers)
		}
		for _, row := range m.Rows {
			if len(row.Cells) != 2 || row.Cells[0].Scheduler != FirstCome || row.Cells[1].Scheduler != Submit {
				t.Errorf("%s: %+v", name, row.Cells)
			}
			for _, cell := range append(row.Cells, row.Ideal) {
				if cell.Estimate != cell.Measures[row.Figure.Measure] || !(cell.Mean > 0) {
					t.Errorf("%s, %s: %+v is not its figure", name, cell.Scheduler, cell.Estimate)
				}
			}
		}
	}
}

func TestATraceIsARegimeForEachNumberOfServers(t *testing.T) {
	recorded := read(t, "0,a,1000\n0,a,1000\n0,a,1000\n500,b,\n700,a,3000\n")
	regime := recorded.Regime(Options{Servers: 2, Policy: priority.DefaultPolicy()},
		TraceOptions{LightDocuments: 3, Service: demand.Service})
	regime.Seeds = 1
	m := compete(t, []Regime{regime}, FirstCome)
	if len(m.Rows) != 2 || m.Rows[0].Regime.Name != "trace-2" || m.Rows[0].Cells[0].Mean != 0.5 {
		t.Errorf("got %+v", m.Rows)
	}
}

// Two figures: a wait, and a share of which more is better.
func TestScoresAreThoseWorkedOutByHand(t *testing.T) {
	regime := Regime{Name: "made", Figures: []Figure{{Measure: "wait"}, {Measure: "share", MoreIsBetter: true}, {Measure: "none"}, {Measure: "nothing"}}}
	outcomes := make(map[string]Outcome)
	for name, means := range map[string][2]float64{
		FirstCome: {80, 0.2}, Submit: {1, 0.4}, "submit:2:1": {2, 0}, RoundRobin: {2, 0.5}, Deficit: {3, 0.8}, Stride: {4, 0.6},
		FairShare: {5, 0.7}, LeastFlight: {6, 0.1},
	} {
		outcomes[name] = Outcome{Scheduler: name, Measures: map[string]Estimate{
			"wait": {Mean: means[0], Within: 0.1}, "share": {Mean: means[1]}, "nothing": {},
		}}
	}
	m := Matrix{Schedulers: []string{FirstCome, RoundRobin, Submit, "submit:2:1"}}
	for _, figure := range regime.Figures {
		m.Rows = append(m.Rows, newRow(regime, figure, m.Schedulers, outcomes))
	}
	for i, want := range []struct {
		ideal  string
		ratios []float64 // of the schedulers
	}{
		{RoundRobin, []float64{40, 1, 0.5, 1}},
		{Deficit, []float64{4, 1.6, 2, math.Inf(1)}},
	} {
		row := m.Rows[i]
		if row.Ideal.Scheduler != want.ideal {
			t.Errorf("%s: ideal is %s", row.Figure.Measure, row.Ideal.Scheduler)
		}
		for s, cell := range row.Cells {
			if math.Abs(cell.Ratio-want.ratios[s]) > 1e-9 {
				t.Errorf("%s, %s: %v times ideal, want %v", row.Figure.Measure, cell.Scheduler, cell.Ratio, want.ratios[s])
			}
		}
	}
	if cell := m.Rows[2].Cells[0]; !math.IsNaN(cell.Mean) || !math.IsNaN(cell.Ratio) || !math.IsNaN(m.Rows[3].Cells[0].Ratio) {
		t.Errorf("a figure that there is not, or without an ideal one: %+v", cell)
	}
	// First come: √(40·4). Round robin: √(1·1.6). Submit: √(1·2), for 0.5 makes up for nothing.
	scores := m.scores()
	want := []Score{{FirstCome, math.Sqrt(160)}, {RoundRobin, math.Sqrt(1.6)}, {Submit, math.Sqrt2}, {"submit:2:1", math.Inf(1)}}
	if len(scores) != len(want) {
		t.Fatalf("got %v", scores)
	}
	for i := range want {
		if scores[i].Scheduler != want[i].Scheduler || !(math.Abs(scores[i].Value-want[i].Value) < 1e-9 || scores[i].Value == want[i].Value) {
			t.Errorf("got %v, want %v", scores[i], want[i])
		}
	}
}

// One seed of the regimes in which Submit is farthest from ideal. In the others it is about
// ideal, which counts as 1. The lab's results have all of them, with twenty seeds.
func TestScoresStayInTheirBounds(t *testing.T) {
	t.Parallel()
	all := 6 // of the trace
	for _, s := range Scenarios() {
		all += len(s.Figures)
	}
	bounds := map[string]float64{"submit/4": 1.32, fourClasses: 1.4, weighted: 1.4, Submit: 1.15, SubmitTurns: 1.1, SubmitCosts: 1.08}
	m := compete(t, regimes(t, 1, "second-flood", "overload", "overload-equal", "overload-wide", "cost-skew", "bursts", "rush-hour"), slices.Sorted(maps.Keys(bounds))...)
	for _, score := range m.Scores {
		value := math.Pow(score.Value, float64(len(m.Rows))/float64(all))
		if bound, ok := bounds[score.Scheduler]; ok && !(value <= bound) {
			t.Errorf("%s has %.3f, to be at most %v", score.Scheduler, value, bound)
		}
		t.Logf("%s: %.3f", score.Scheduler, value)
	}
}
