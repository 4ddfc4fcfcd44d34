package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/census"
	"github.com/spf13/cobra"
)

const topLong = `Top shows how many customers and documents each level has, and the busiest
customers: live on a terminal, until q or Ctrl-C; once anywhere else. The levels
are those of Next; get tells that of Submit.

It goes through all counts by SCAN, at a bounded pace, again and again. The
documents are those since the pass before, and in the first pass those since each
customer's last reset. A pass over more keys than -pace allows in -interval takes
longer, and the screen says how far it is.`

func newTop() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var interval time.Duration
	var pace, busiest int
	var once, asJSON bool
	command := &cobra.Command{
		Use:               "top",
		Short:             "Shows the levels' documents and the busiest customers, live",
		Long:              topLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if interval < 100*time.Millisecond {
				return usageError("-interval %v is less than 100ms", interval)
			}
			if busiest < 0 || busiest > 1000 {
				return usageError("-customers %d is not from 0 to 1000", busiest)
			}
			return checkPace(pace)
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		t := &tally{connection: c, options: census.Options{Prefix: c.prefix, Pace: pace}, busiest: busiest}
		if !once && !asJSON && isTerminal(command.OutOrStdout()) {
			return t.live(command, interval)
		}
		return t.once(command.Context(), command.OutOrStdout(), asJSON)
	})
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", 2*time.Second, "how often to look, at most")
	flags.IntVar(&busiest, "customers", 10, "how many of the busiest customers to show")
	flags.BoolVar(&once, "once", false, "print one pass, even on a terminal")
	flags.BoolVar(&asJSON, "json", false, "print one pass as one JSON object")
	registerPace(command, &pace)
	connect.register(command)
	policies.register(command)
	return command
}

// once prints one pass.
func (t *tally) once(ctx context.Context, out io.Writer, asJSON bool) error {
	if _, err := t.advance(ctx, time.Time{}); err != nil {
		return t.connection.broken(err)
	}
	if asJSON {
		return writeJSON(out, t.json())
	}
	screen := screen{width: 80, tally: t}
	_, err := io.WriteString(out, screen.text())
	return err
}

// topJSON is a pass in JSON.
type topJSON struct {
	Levels  []topLevel    `json:"levels"`
	Corrupt int64         `json:"corrupt"`
	Busiest []topCustomer `json:"busiest"`
	Policy  policyJSON    `json:"policy"`
}

type topLevel struct {
	Level     priority.Level `json:"level"`
	Customers int64          `json:"customers"`
	Documents int64          `json:"documents"` // since the resets
}

type topCustomer struct {
	name
	Level     priority.Level `json:"level"`
	Count     int64          `json:"count"`
	Documents int64          `json:"documents"`
	ResetInMS int64          `json:"reset_in_ms"`
}

func (t *tally) json() topJSON {
	result := topJSON{Corrupt: t.last.Corrupt, Busiest: []topCustomer{}, Policy: jsonOf(t.connection.policy.Policy)}
	for i := range t.last.Customers {
		result.Levels = append(result.Levels, topLevel{priority.First + priority.Level(i), t.last.Customers[i], t.last.Documents[i]})
	}
	for _, b := range t.last.Busiest {
		result.Busiest = append(result.Busiest, topCustomer{nameOf(b.Customer), b.Level, b.Count, b.Documents, b.ResetIn.Milliseconds()})
	}
	return result
}

// sum adds numbers up.
func sum(numbers []int64) int64 {
	var total int64
	for _, n := range numbers {
		total += n
	}
	return total
}

// title says what is looked at.
func (t *tally) title() string {
	return fmt.Sprintf("%s  prefix %s  policy %s", t.connection.target, shown(t.connection.prefix), t.connection.policy.Name)
}

// status says what the last pass has found, and how far the next one is.
func (t *tally) status() string {
	if t.last.At.IsZero() {
		return fmt.Sprintf("first pass: %d %% of %s", t.progress(), plural(t.keys, "key"))
	}
	since := "since their resets"
	if t.last.Since > 0 {
		since = "in the last " + span(t.last.Since.Round(100*time.Millisecond))
	}
	status := fmt.Sprintf("%s, %s %s", plural(sum(t.last.Customers), "customer"), plural(sum(t.last.Documents), "document"), since)
	if t.last.Corrupt > 0 {
		status += fmt.Sprintf(", %s corrupt", plural(t.last.Corrupt, "key"))
	}
	if t.last.Unknown > 0 {
		status += fmt.Sprintf(", without those of %s", plural(t.last.Unknown, "customer"))
	}
	if t.walk != nil {
		status += fmt.Sprintf("; next pass: %d %%", t.progress())
	}
	return status
}
