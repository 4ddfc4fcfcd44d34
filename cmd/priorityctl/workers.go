package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const workersLong = `Workers lists the processes of the fleet, which report every five seconds: those that
use fleet.Join, or its equivalent in another language. One that ended without Close is
listed for an hour. RULES is the version that a worker follows, or own: its own
options. LEVELS is how many its queue has, marked if most differ. The exit status
is 1 if a worker is gone, or does not follow all that operators have set.

  priorityctl workers`

func newWorkers() *cobra.Command {
	var connect connectionFlags
	var asJSON bool
	command := &cobra.Command{Use: "workers", Long: workersLong}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		if c.Unreported != nil {
			return c.Unreported
		}
		c.warn(command)
		var err error
		if asJSON {
			err = writeAll(command.OutOrStdout(), c.Workers)
		} else {
			_, err = io.WriteString(command.OutOrStdout(), workersTable(c.Snapshot))
		}
		for _, w := range c.Workers {
			if err == nil && !w.Follows && !w.Replaced {
				err = statusError{exitFailed, errPrinted}
			}
		}
		return err
	})
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func workersTable(s *insight.Snapshot) string {
	if len(s.Workers) == 0 {
		return "No worker has reported in the last hour: workers with fleet.Join do.\n"
	}
	var out strings.Builder
	if s.Full() {
		out.WriteString("Redis is full: reports cannot be written, workers may be missing.\n")
	}
	line := func(cells ...string) {
		fmt.Fprintf(&out, "%-8s  %-10.10s  %9s  %7s  %6s  %-7s  %s\n", cells[0], cells[1], cells[2], cells[3], cells[4], cells[5], cells[6])
	}
	line("LANGUAGE", "VERSION", "UP", "RULES", "LEVELS", "FOLLOWS", "WORKER")
	for _, w := range s.Workers {
		up, rules, levels, follows := "-", "own", fmt.Sprint(w.Levels), "yes"
		if !w.Since.IsZero() && w.Here {
			up = upFor(s.At.Sub(w.Since))
		}
		if !w.Own {
			rules = fmt.Sprint(w.Rules)
		}
		if w.OddLevels {
			levels = "! " + levels
		}
		switch {
		case !w.Here && !s.Full():
			follows = "gone"
		case !w.Follows:
			follows = "no"
		}
		line(insight.Shown(w.Language), insight.Shown(w.Version), up, rules, levels, follows, w.Called())
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
