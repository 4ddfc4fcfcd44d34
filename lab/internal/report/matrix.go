package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/docpriority/priority/lab/internal/markdown"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// Matrix is a comparison of schedulers.
type Matrix struct {
	simulation.Matrix
	Options simulation.Options // without Servers and LostDone, which differ
	Service string             // of the scenarios
	Seeds   int
}

// WriteTable writes one table in Markdown, a line for each figure, and the scores.
func (m Matrix) WriteTable(to io.Writer) error {
	table := [][]string{slices.Concat([]string{"regime", "figure"}, m.Schedulers, []string{"oracle", "ideal", "submit ÷ ideal"})}
	for _, row := range m.Rows {
		line := []string{row.Regime.Name, plain(row.Figure.Measure)}
		for _, cell := range row.Cells {
			line = append(line, wide(cell.Estimate))
		}
		ideal := fmt.Sprintf("%s (%s)", wide(row.Ideal.Estimate), row.Ideal.Scheduler)
		table = append(table, append(line, wide(row.Oracle.Estimate), ideal, m.ratio(row)))
	}
	scores := make([]string, len(m.Scores))
	for i, score := range m.Scores {
		scores[i] = score.Scheduler + " " + number(score.Value)
	}
	_, err := fmt.Fprintf(to, "%s.\n\n%s\nScore, 1 is ideal: %s.\n", m.conditions(), markdown.Table(table), strings.Join(scores, ", "))
	return err
}

// WriteOrder writes one table in Markdown of who overtakes and who waits longest: the
// percentage of the documents that waited which a later document of the same customer
// overtook, and the longest wait of the others (of a trace, of light customers) and of all.
func (m Matrix) WriteOrder(to io.Writer) error {
	table := [][]string{slices.Concat([]string{"regime", ""}, m.Schedulers)}
	for _, row := range m.regimes() {
		for _, about := range []struct {
			title    string
			measures []string // the first that there is
			times    float64
		}{
			{"overtaken, %", []string{simulation.OvertakenShare}, 100},
			{"longest, others", []string{simulation.Others + "_wait_max_s", simulation.Light + "_wait_max_s"}, 1},
			{"longest, all", []string{simulation.LongestWait}, 1},
		} {
			line := []string{row.Regime.Name, about.title}
			for _, cell := range row.Cells {
				line = append(line, number(about.times*first(cell, about.measures)))
			}
			table = append(table, line)
		}
	}
	_, err := fmt.Fprintf(to, "%s.\n\n%s", m.conditions(), markdown.Table(table))
	return err
}

// conditions says under which the matrix was made.
func (m Matrix) conditions() string {
	conditions := fmt.Sprintf("%s; %s consumers; %d levels", m.Service, m.Options.Discipline, m.Options.Policy.Last())
	if m.Options.Lease > 0 {
		conditions += fmt.Sprintf("; lease %v", m.Options.Lease)
	}
	return conditions + fmt.Sprintf("; seeds: %d", m.Seeds)
}

// ratio compares submit with ideal.
func (m Matrix) ratio(row simulation.Row) string {
	i := slices.Index(m.Schedulers, simulation.Submit)
	if i < 0 || math.IsNaN(row.Cells[i].Ratio) {
		return "-"
	}
	return number(row.Cells[i].Ratio)
}

// regimes returns the first row of each regime.
func (m Matrix) regimes() []simulation.Row {
	return slices.CompactFunc(slices.Clone(m.Rows), func(a, b simulation.Row) bool { return a.Regime.Name == b.Regime.Name })
}

// first returns the mean of the first of the measures that there is.
func first(cell simulation.Cell, measures []string) float64 {
	for _, measure := range measures {
		if estimate, ok := cell.Measures[measure]; ok {
			return estimate.Mean
		}
	}
	return math.NaN()
}

// wide writes a mean and its interval.
func wide(e simulation.Estimate) string {
	switch {
	case math.IsNaN(e.Mean):
		return "-"
	case e.Within == 0:
		return number(e.Mean)
	}
	return number(e.Mean) + " ± " + number(e.Within)
}
