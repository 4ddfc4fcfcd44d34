package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"

	"github.com/docpriority/priority/lab/internal/simulation"
)

// WriteTable writes a table for each group of customers.
func (s Simulation) WriteTable(to io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s.\n%s.\n", s.About.Name, s.About.Summary, s.conditions())
	for _, group := range s.groups() {
		if group == simulation.Pauser {
			s.writeWaits(&text, group, "pauser_to_others_p50", "÷ others")
		} else {
			s.writeWaits(&text, group, "", "")
		}
	}
	s.writeRest(&text)
	s.writeResults(&text)
	if s.Seeds > 1 {
		text.WriteString("\n± is half the 95 % confidence interval of the mean.\n")
	}
	_, err := io.WriteString(to, text.String())
	return err
}

// conditions says under which the simulation was made.
func (s Simulation) conditions() string {
	conditions := fmt.Sprintf("%d servers; %s; %s levels", s.Options.Servers, s.About.Service, s.Options.Discipline)
	if s.Options.LostDone > 0 {
		conditions += fmt.Sprintf("; %v %% of Dones lost", 100*s.Options.LostDone)
	}
	if s.Options.Lease > 0 {
		conditions += fmt.Sprintf("; lease %v", s.Options.Lease)
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
		simulation.Others, simulation.Light, simulation.Heavy, "lightest_half", "worst_customer", simulation.Pauser, simulation.Flooder, simulation.Second,
	} {
		if s.Outcomes[0].Measures[group+"_documents"].Mean > 0 {
			groups = append(groups, group)
		}
	}
	return groups
}

// writeWaits writes the waits of one group, and perhaps another measure.
func (s Simulation) writeWaits(to io.Writer, group, extra, title string) {
	columns := []column{
		{"mean", group + "_wait_mean_s", false},
		{"p50", group + "_wait_p50_s", false},
		{"p95", group + "_wait_p95_s", false},
		{"p99", group + "_wait_p99_s", s.Seeds > 1},
		{"max", group + "_wait_max_s", false},
		{"slow p99", group + "_slowdown_p99", false},
	}
	if extra != "" {
		columns[len(columns)-1] = column{title, extra, false}
	}
	fmt.Fprintf(to, "\nWait of %s, s\n", theGroup(group))
	s.writeColumns(to, columns)
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

func (s Simulation) writeRest(to io.Writer) {
	fmt.Fprint(to, "\nOf all\n")
	s.writeColumns(to, []column{
		{"Jain", "jain", false},
		{"least", "smallest_share", false},
		{"worst 10th", "worst_tenth_wait_s", false},
		{"makespan", "makespan_s", false},
		{"overtaken", "overtaken", false},
		{"unserved", "oldest_unserved_s", false},
	})
}

// column is a measure in a table.
type column struct {
	title, measure string
	within         bool // with the confidence interval
}

func (s Simulation) writeColumns(to io.Writer, columns []column) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	// The first column stands to the left; the others follow it to the right.
	names := make([]string, len(s.Outcomes)+1)
	longest := 0
	for i, outcome := range s.Outcomes {
		names[i+1] = outcome.Scheduler
		longest = max(longest, len(outcome.Scheduler))
	}
	for i, name := range names {
		fmt.Fprintf(table, "%-*s\t", longest, name)
		for _, c := range columns {
			switch {
			case i == 0 && c.within:
				fmt.Fprintf(table, "%s ±\t", c.title)
			case i == 0:
				fmt.Fprintf(table, "%s\t", c.title)
			default:
				fmt.Fprintf(table, "%s\t", s.cell(s.Outcomes[i-1], c))
			}
		}
		fmt.Fprintln(table)
	}
	table.Flush() // to a strings.Builder, which cannot fail
}

func (s Simulation) cell(outcome simulation.Outcome, c column) string {
	estimate, ok := outcome.Measures[c.measure]
	switch {
	case !ok:
		return "-"
	case c.within:
		return number(estimate.Mean) + " ± " + number(estimate.Within)
	}
	return number(estimate.Mean)
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

func (s Simulation) writeResults(to io.Writer) {
	if len(s.Results) == 0 {
		return
	}
	fmt.Fprint(to, "\nTargets\n")
	for _, r := range s.Results {
		fmt.Fprintf(to, "  %s\n", sentence(r))
	}
}

// sentence says what was to be reached, and what was.
func sentence(r simulation.Result) string {
	bound, reached := "at most", "missed"
	if r.AtLeast {
		bound = "at least"
	}
	if r.Reached {
		reached = "reached"
	}
	return fmt.Sprintf("%s: %s, %s: %s ± %s; to be %s %s",
		reached, r.Scheduler, plain(r.Measure), number(r.Estimate.Mean), number(r.Estimate.Within), bound, number(r.Value))
}

// plain makes words of a measure's name, as in "others wait p99".
func plain(measure string) string {
	return strings.ReplaceAll(strings.TrimSuffix(measure, "_s"), "_", " ")
}
