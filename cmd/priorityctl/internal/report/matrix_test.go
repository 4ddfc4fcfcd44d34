package report

import (
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// madeMatrix returns one of two regimes, with the figures of its cells all alike.
func madeMatrix(mean, within, ratio float64) Matrix {
	cell := func(name string) simulation.Cell {
		estimate := simulation.Estimate{Mean: mean, Within: within}
		return simulation.Cell{
			Outcome: simulation.Outcome{Scheduler: name, Measures: map[string]simulation.Estimate{
				simulation.OvertakenShare: {Mean: 0.25}, "light_wait_max_s": {Mean: 7}, simulation.LongestWait: {Mean: mean},
			}},
			Estimate: estimate,
			Ratio:    ratio,
		}
	}
	m := Matrix{
		Matrix:  simulation.Matrix{Schedulers: simulation.Schedulers(), Scores: []simulation.Score{{Scheduler: "submit", Value: 1.25}, {Scheduler: "oracle", Value: math.Inf(1)}}},
		Options: simulation.Options{Discipline: simulation.Strict, Policy: priority.DefaultPolicy()},
		Service: "some service",
		Seeds:   20,
	}
	for i, measure := range []string{"lightest_half_wait_mean_s", "smallest_share", "others_wait_p99_s"} {
		row := simulation.Row{
			Regime: simulation.Regime{Name: []string{"occasional-flood", "occasional-flood", "other"}[i]},
			Figure: simulation.Figure{Measure: measure, MoreIsBetter: i == 1},
			Ideal:  cell(simulation.Stride),
			Oracle: cell(simulation.OracleWaits),
		}
		for _, name := range m.Schedulers {
			row.Cells = append(row.Cells, cell(name))
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

func written(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var text strings.Builder
	if err := write(&text); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestTheLargestMatrixFitsATerminal(t *testing.T) {
	for _, value := range []float64{0, 0.00004, 0.0123, 99.949, 9999.49, 99_999.4, 612_071.9, math.NaN(), math.Inf(1)} {
		m := madeMatrix(value, value, value)
		for _, text := range []string{written(t, m.WriteTable), written(t, m.WriteOrder)} {
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
					t.Errorf("%d columns: %s", n, line)
				}
			}
		}
	}
}

func TestAMatrixShowsEveryFigure(t *testing.T) {
	m := madeMatrix(1234.5, 0.05, 0.5)
	for name, text := range map[string]string{"table": written(t, m.WriteTable), "Markdown": written(t, m.WriteMarkdown)} {
		for want, times := range map[string]int{
			"123": 3 * 9, "0.05": 3 * 9, "stride": 3, "0.50": 3, "submit 1.25, oracle inf": 1,
		} {
			if got := strings.Count(text, want); got < times {
				t.Errorf("%s: %s is there %d times, want %d:\n%s", name, want, got, times, text)
			}
		}
	}
	// Order is one row a regime and measure: of the light where there are no others.
	order := written(t, m.WriteOrderMarkdown)
	for _, want := range []string{
		"\n| occasional-flood | overtaken, % | 25.0 |", "\n| occasional-flood | longest, others | 7.00 |", "\n| other | longest, all | 1234 |",
	} {
		if strings.Count(order, want) != 1 {
			t.Errorf("no %s, or twice, in\n%s", want, order)
		}
	}
	for _, text := range []string{order, written(t, m.WriteMarkdown)} {
		table, _, _ := strings.Cut(text, "\n\n")
		columns := strings.Count(strings.SplitN(table, "\n", 2)[0], "|")
		for line := range strings.Lines(table) {
			if strings.Count(line, "|") != columns {
				t.Errorf("not %d bars: %s", columns, line)
			}
		}
	}
}

func TestAMatrixIsValidJSONWithoutFigures(t *testing.T) {
	for _, value := range []float64{math.NaN(), math.Inf(1), 2} {
		var object struct {
			Figures []struct {
				Regime     string
				Schedulers []struct{ Mean, CI95, Ratio *float64 }
			}
			Regimes []struct{ Regime string }
			Scores  map[string]float64
		}
		m := madeMatrix(value, value, value)
		for i := range m.Rows {
			for c := range m.Rows[i].Cells {
				m.Rows[i].Cells[c].Measures = nil
			}
		}
		if err := json.Unmarshal([]byte(written(t, m.WriteJSON)), &object); err != nil {
			t.Fatal(err)
		}
		cell := object.Figures[2].Schedulers[0]
		if known := value == 2; (cell.Mean != nil) != known || (cell.CI95 != nil) != known || (cell.Ratio != nil) != known {
			t.Errorf("%v: %+v", value, cell)
		}
		if len(object.Figures) != 3 || len(object.Regimes) != 2 || len(object.Scores) != 1 || object.Scores["submit"] != 1.25 {
			t.Errorf("got %+v", object)
		}
	}
}
