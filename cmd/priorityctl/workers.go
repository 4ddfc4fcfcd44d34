package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const workersLong = `Workers lists the processes of the fleet that report
themselves every five seconds: those that use fleet.Join, or its equivalent in another
language. A process that ends without Close is listed for half a minute more;
after eight seconds without a report it counts as not obeying.

RULES is the version that a worker follows, or own: its own options. OVERRIDES
says whether it applies overrides, and OBEYS whether it follows all that
operators have set; if not, the next line says why. Degraded: it cannot reach
Redis, and a fallback answers.`

func newWorkers() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "workers",
		Short:             "Lists the workers, and which of them do not obey",
		Long:              workersLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.follow(command); err != nil {
			return err
		}
		workers, err := c.Workers(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return writeAll(command.OutOrStdout(), workers)
		}
		_, err = io.WriteString(command.OutOrStdout(), workersTable(workers))
		return err
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a worker")
	queue.register(command)
	connect.register(command)
	return command
}

func workersTable(workers []insight.Worker) string {
	if len(workers) == 0 {
		return "No worker has reported in the last 30s: those that use fleet.Join do.\n"
	}
	var out strings.Builder
	line := func(cells ...string) {
		fmt.Fprintf(&out, "%-8s  %-10s  %9s  %7s  %-9s  %-5s  %s\n", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6])
	}
	line("LANGUAGE", "VERSION", "UP", "RULES", "OVERRIDES", "OBEYS", "WORKER")
	yes := map[bool]string{true: "yes", false: "no"}
	for _, w := range workers {
		up, rules, called := "-", "own", w.Called()
		if !w.Since.IsZero() {
			up = upFor(time.Since(w.Since))
		}
		if w.Rules > 0 {
			rules = fmt.Sprint(w.Rules)
		}
		if w.Degraded {
			called += ", degraded"
		}
		line(insight.Shown(w.Language), ansi.Truncate(insight.Shown(w.Version), 10, "…"), up, rules, yes[w.Overrides], yes[w.Obeys], called)
		if w.Why != "" {
			indented(&out, 2, w.Why)
		}
	}
	return out.String()
}

// upFor writes how long a process has been running: days, hours and minutes.
func upFor(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	case d >= time.Hour:
		return insight.Span(d.Round(time.Minute))
	}
	return insight.Span(d.Round(time.Second))
}
