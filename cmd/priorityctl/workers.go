package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const workersLong = `Workers lists the processes of the fleet, as they report themselves every five
seconds: those that use fleet.Join, or that of another language. A process that ends
is listed for half a minute more, unless it said goodbye.

RULES is the version that a worker follows, or own: its own options. OVERRIDES says
whether it goes by overrides. STATE is obeys if it does all that operators have set,
else why not; degraded means that it cannot reach Redis, so that a fallback answers.`

func newWorkers() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "workers",
		Short:             "Lists the workers, and which of them do not do what is set",
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
	rows := [][]string{{"WORKER", "HOST", "LANGUAGE", "VERSION", "UP", "RULES", "OVERRIDES", "STATE"}}
	for _, w := range workers {
		up, rules, overrides, state := "-", "own", "yes", "obeys"
		if !w.Since.IsZero() {
			up = insight.Span(time.Since(w.Since).Round(time.Second))
		}
		if w.Rules > 0 {
			rules = fmt.Sprint(w.Rules)
		}
		if !w.Overrides {
			overrides = "no"
		}
		if !w.Obeys {
			state = "does not obey"
		}
		if w.Degraded {
			state += ", degraded"
		}
		rows = append(rows, []string{insight.Shown(w.Name), insight.Shown(w.Host), w.Language, w.Version, up, rules, overrides, state})
	}
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var out strings.Builder
	for i, row := range rows {
		var line strings.Builder
		for at, cell := range row {
			fmt.Fprintf(&line, "%-*s  ", widths[at], cell)
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
		if i > 0 && workers[i-1].Why != "" {
			indented(&out, 2, workers[i-1].Why)
		}
	}
	return out.String()
}
