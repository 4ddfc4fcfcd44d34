// Package report shows what the simulator measured, in tables and in words.
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

// Matrices are comparisons of schedulers.
type Matrices struct {
	All   []simulation.Matrix
	Seeds int
}

// WriteTables writes tables in Markdown, with a line for each figure, and the scores.
func (m Matrices) WriteTables(to io.Writer) error {
	text := fmt.Sprintf("%s; strict consumers; seeds: %d.\n", simulation.ServiceTimes, m.Seeds)
	for _, matrix := range m.All {
		text += "\n" + figures(matrix)
		if len(matrix.Scores) > 0 {
			text += "\n" + scores(matrix)
		}
	}
	_, err := io.WriteString(to, text)
	return err
}

func figures(m simulation.Matrix) string {
	table := [][]string{slices.Concat([]string{"regime", "figure"}, m.Schedulers)}
	if len(m.Scores) > 0 {
		table[0] = append(table[0], "ideal")
	}
	for _, row := range m.Rows {
		line := []string{row.Regime.Name, plain(row.Figure.Measure)}
		for _, cell := range row.Cells {
			line = append(line, wide(cell.Estimate))
		}
		if len(m.Scores) > 0 {
			line = append(line, fmt.Sprintf("%s (%s)", wide(row.Ideal.Estimate), row.Ideal.Scheduler))
		}
		table = append(table, line)
	}
	return markdown.Table(table)
}

func scores(m simulation.Matrix) string {
	of := map[string]string{}
	for _, order := range simulation.Orders() {
		of[order.Scheduler] = order.Of
	}
	table := [][]string{{"scheduler", "score, 1 is ideal", "whose order"}}
	for _, score := range m.Scores {
		table = append(table, []string{score.Scheduler, number(score.Value), of[score.Scheduler]})
	}
	return markdown.Table(table)
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

// number writes a value with three digits, and never as a power of ten.
func number(value float64) string {
	switch size := math.Abs(value); {
	case size >= 99.95:
		return fmt.Sprintf("%.0f", value)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", value)
	case size >= 0.01 || value == 0:
		return fmt.Sprintf("%.2f", value)
	}
	return fmt.Sprintf("%.4f", value)
}

// plain makes words of a measure's name, as in "others wait p99".
func plain(measure string) string {
	return strings.ReplaceAll(strings.TrimSuffix(measure, "_s"), "_", " ")
}
