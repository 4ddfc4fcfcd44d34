package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const workersLong = `Workers lists the processes of the fleet, which report every five seconds: those that
use fleet.Join, or its equivalent in another language. One that ended without Close is
listed for an hour. POLICIES is the version that a worker follows, or own: its own
options. LEVELS is how many its queue has, marked if most differ. The exit status
is 1 if there is no worker, one is gone, does not follow all that operators have set,
or decides by something else than others.

  priorityctl workers`

func newWorkers() *cobra.Command {
	command := &cobra.Command{Use: "workers", Long: workersLong}
	registerJSON(command)
	return looking(command, nil, func(c *call, s *insight.Snapshot, _ []string) error {
		if s.ReportsErr != nil {
			return s.ReportsErr
		}
		c.warn(s)
		checks := s.WorkerChecks(c.ctx(), false)
		var err error
		switch {
		case c.asJSON:
			err = writeAll(c.out, s.Workers)
		case len(s.Workers) == 0:
			err = c.printChecks(checks)
		default:
			_, err = io.WriteString(c.out, workersTable(s))
		}
		if err == nil && insight.Worst(checks) != insight.OK {
			err = statusError{exitFailed, errPrinted}
		}
		return err
	})
}

func workersTable(s *insight.Snapshot) string {
	var out strings.Builder
	if s.Full() {
		out.WriteString("Redis is full: reports cannot be written, workers may be missing.\n")
	}
	line := func(cells ...any) {
		fmt.Fprintf(&out, "%-8s  %-10.10s  %9s  %8s  %6s  %-7s  %s\n", cells...)
	}
	line("LANGUAGE", "VERSION", "UP", "POLICIES", "LEVELS", "FOLLOWS", "WORKER")
	for _, w := range s.Workers {
		up, policies, levels, follows := "-", "own", fmt.Sprint(w.Levels), "yes"
		if !w.Since.IsZero() && w.Here {
			up = insight.Span(s.At.Sub(w.Since).Round(time.Second))
		}
		if !w.Following.Own {
			policies = fmt.Sprint(w.Following.Version)
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
		line(insight.Shown(w.Language), insight.Shown(w.Version), up, policies, levels, follows, w.Called())
		if w.Why != "" {
			indented(&out, 2, w.Why)
		}
	}
	return out.String()
}
