//go:build !race

package simulation

import (
	"math"
	"testing"
)

func TestCompete_Trace(t *testing.T) {
	regime := read(t, "0,a,1000\n0,a,1000\n0,a,1000\n500,b,\n700,a,3000\n").Regime(2, TraceOptions{LightDocuments: 3})
	regime.Seeds = 1
	all, err := Compete(t.Context(), []Regime{regime}, []string{FirstCome})
	if err != nil {
		t.Fatal(err)
	}
	if m := all[0]; len(m.Rows) != 2 || m.Rows[0].Regime.Name != "trace-2" || m.Rows[0].Cells[0].Mean != 0.5 {
		t.Errorf("got %+v", m.Rows)
	}
}

// Two figures: a wait, and a share of which more is better. Worked out by hand.
func TestScores(t *testing.T) {
	outcomes := make(map[string]Outcome)
	for name, means := range map[string][2]float64{
		FirstCome: {80, 0.2}, Submit: {1, 0.4}, RoundRobin: {2, 0.5}, Stride: {3, 0.8}, FairShare: {5, 0.7}, LeastFlight: {6, 0.1},
	} {
		outcomes[name] = Outcome{name, map[string]Estimate{"wait": {Mean: means[0]}, "share": {Mean: means[1]}}}
	}
	m := Matrix{Schedulers: []string{FirstCome, RoundRobin, Submit}}
	for _, figure := range []Figure{{Measure: "wait"}, {Measure: "share", MoreIsBetter: true}, {Measure: "none"}} {
		m.Rows = append(m.Rows, newRow(Regime{}, figure, m.Schedulers, outcomes))
	}
	if m.Rows[0].Ideal.Scheduler != RoundRobin || m.Rows[1].Ideal.Scheduler != Stride {
		t.Errorf("ideal: %s, %s", m.Rows[0].Ideal.Scheduler, m.Rows[1].Ideal.Scheduler)
	}
	// 80/2 and .8/.2; 1 and .8/.5; .5, which makes up for nothing, and .8/.4.
	for i, want := range []float64{math.Sqrt(40 * 4), math.Sqrt(1.6), math.Sqrt2} {
		if got := m.score(i); math.Abs(got-want) > 1e-9 {
			t.Errorf("%s scores %v, want %v", m.Schedulers[i], got, want)
		}
	}
}
