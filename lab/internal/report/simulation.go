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

// Simulation is a scenario or a trace, and what each scheduler made of it.
type Simulation struct {
	simulation.Experiment
	About    About
	Outcomes []simulation.Outcome
}

// About says what was simulated.
type About struct{ Name, Summary, Service string }

// WriteTable writes a table for each group of customers.
func (s Simulation) WriteTable(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s.\n%s.\n", s.About.Name, s.About.Summary, s.conditions())
	for _, group := range s.groups() {
		fmt.Fprintf(&text, "\nWait of %s, s\n%s", theGroup(group), s.table(group+"_wait_", "mean_s", "p50_s", "p99_s", "max_s"))
	}
	if slices.Contains(s.groups(), "weight_1") {
		fmt.Fprintf(&text, "\nWhat they were served ÷ their share by weight\n%s", s.table("", "weight_1_share", "weight_3_share", "weight_10_share"))
	}
	fmt.Fprintf(&text, "\nOf all\n%s", s.table("", "jain", "smallest_share", "worst_tenth_wait_s"))
	if s.Seeds > 1 {
		text.WriteString("\n± is half the 95 % confidence interval of the mean.\n")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// conditions says under which the simulation was made.
func (s Simulation) conditions() string {
	conditions := fmt.Sprintf("%d servers; %s; strict levels", s.Servers, s.About.Service)
	if s.LostDone > 0 {
		conditions += fmt.Sprintf("; %v %% of Dones lost", 100*s.LostDone)
	}
	if s.Seeds == 1 {
		return conditions + "; 1 seed"
	}
	return conditions + fmt.Sprintf("; mean of %d seeds", s.Seeds)
}

// groups returns those that were measured, in the order in which they matter.
func (s Simulation) groups() []string {
	var groups []string
	for _, group := range []string{
		simulation.Others, "weight_1", "weight_3", "weight_10", simulation.Light, simulation.Heavy, "lightest_half", simulation.Flooder, simulation.Second,
	} {
		if s.Outcomes[0].Measures[group+"_documents"].Mean > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

func theGroup(group string) string {
	switch group {
	case simulation.Others:
		return "the others"
	case simulation.Light, simulation.Heavy:
		return group + " customers"
	case simulation.Second:
		return "the second flooder"
	}
	return "the " + plain(group)
}

// table has a line for each scheduler, of measures whose names begin alike.
func (s Simulation) table(prefix string, measures ...string) string {
	rows := [][]string{{""}}
	for _, measure := range measures {
		rows[0] = append(rows[0], plain(measure))
	}
	for _, outcome := range s.Outcomes {
		row := []string{outcome.Scheduler}
		for _, measure := range measures {
			estimate, ok := outcome.Measures[prefix+measure]
			if !ok {
				estimate.Mean = math.NaN()
			}
			row = append(row, wide(estimate))
		}
		rows = append(rows, row)
	}
	return markdown.Table(rows)
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
