//go:build !race

package simulation

import (
	"slices"
	"testing"
	"time"

	"github.com/docpriority/priority"
)

const nine = priority.Level(9)

// Of a bound that is to mean something, submit does not come below it by much.
func TestTheOracleIsAsGoodAsSubmit(t *testing.T) {
	m := compete(t, regimes(t, 1, "steady-flood", "overload", "batches", "rush-hour"), Submit)
	for _, row := range m.Rows {
		if ratio := row.Figure.ratio(row.Cells[0].Mean, row.Oracle.Mean); ratio < 0.98 {
			t.Errorf("%s, %s: %v by submit, %v by %s", row.Regime.Name, row.Figure.Measure, row.Cells[0].Mean, row.Oracle.Mean, row.Oracle.Scheduler)
		}
	}
}

func TestTheOracleOfSizeKnowsWhoWillFlood(t *testing.T) {
	scenario, err := FindScenario("second-flood")
	if err != nil {
		t.Fatal(err)
	}
	w := scenario.Workload(demand, 1)
	levels := newOracleOfSize(w, demand.Servers, nine)
	for i, d := range w.Documents {
		want := uint8(1)
		switch w.Groups[w.GroupOf[d.Customer]] {
		case Second:
			want = 5
		case Flooder:
			want = 9
		}
		if levels[i] != want {
			t.Fatalf("a document of %s has level %d, want %d", w.Customers[d.Customer], levels[i], want)
		}
	}
}

// Customer a sends 6 documents of 1 s and b 2 in 4 s, of one server: their fair
// shares are 2 s each.
func TestTheOracleOfSharesGivesFairShares(t *testing.T) {
	w := made([3]int{a, 0, 1}, [3]int{a, 0, 1}, [3]int{b, 0, 1}, [3]int{a, 1, 1}, [3]int{a, 2, 1}, [3]int{a, 2, 1}, [3]int{b, 3, 1}, [3]int{a, 3, 1})
	w.To = 4 * time.Second
	if got := newOracleOfShares(w, 1, nine); !slices.Equal(got, oracle{9, 9, 1, 1, 9, 9, 1, 1}) {
		t.Errorf("levels %v", got)
	}
}

func TestTheOracleOfWaitsGivesLaterLevelsToLongerWaits(t *testing.T) {
	scenario, err := FindScenario("steady-flood")
	if err != nil {
		t.Fatal(err)
	}
	w := scenario.Workload(demand, 1)
	starts, err := Run(w, demand.Servers, newRoundRobin(w))
	if err != nil {
		t.Fatal(err)
	}
	for _, last := range []priority.Level{1, 3, nine, 255} {
		levels, err := newOracleOfWaits(w, demand.Servers, last)
		if err != nil {
			t.Fatal(err)
		}
		order := make([]int, len(levels))
		for i := range order {
			order[i] = i
		}
		slices.SortFunc(order, func(i, j int) int {
			return int((starts[i] - w.Documents[i].Submitted) - (starts[j] - w.Documents[j].Submitted))
		})
		if !slices.IsSortedFunc(order, func(i, j int) int { return int(levels[i]) - int(levels[j]) }) {
			t.Errorf("%d levels: a later level for a shorter wait", last)
		}
		if first, latest := levels[order[0]], levels[order[len(order)-1]]; first != 1 || latest != uint8(last) {
			t.Errorf("%d levels: from %d to %d", last, first, latest)
		}
	}
}
