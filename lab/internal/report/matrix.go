package report

import (
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/docpriority/priority/lab/internal/markdown"
	"github.com/docpriority/priority/lab/internal/simulation"
)

// Matrix is a comparison of schedulers.
type Matrix struct {
	simulation.Matrix
	Seeds int
}

// WriteTable writes one table in Markdown, a line for each figure, and the scores.
func (m Matrix) WriteTable(to io.Writer) error {
	table := [][]string{slices.Concat([]string{"regime", "figure"}, m.Schedulers, []string{"ideal"})}
	for _, row := range m.Rows {
		line := []string{row.Regime.Name, plain(row.Figure.Measure)}
		for _, cell := range row.Cells {
			line = append(line, wide(cell.Estimate))
		}
		ideal := fmt.Sprintf("%s (%s)", wide(row.Ideal.Estimate), row.Ideal.Scheduler)
		table = append(table, append(line, ideal))
	}
	of := map[string]string{}
	for _, order := range simulation.Orders() {
		of[order.Scheduler] = order.Of
	}
	scores := [][]string{{"scheduler", "score, 1 is ideal", "whose order"}}
	for _, score := range m.Scores {
		scores = append(scores, []string{score.Scheduler, number(score.Value), of[score.Scheduler]})
	}
	_, err := fmt.Fprintf(to, "%s; strict consumers; seeds: %d.\n\n%s\n%s", simulation.ServiceTimes, m.Seeds, markdown.Table(table), markdown.Table(scores))
	return err
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
