package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const statusLong = `Status says on one screen whether all is well, and what to do if not: Redis, the
policy, the workers, how long level 1 waits, who floods, the overrides. The exit
status is 0 if all is well, 1 if there is something to do, and 3 if Redis cannot be
reached.

  priorityctl status
  priorityctl status -json        for a probe`

func newStatus() *cobra.Command {
	return newChecks("status", statusLong, func(command *cobra.Command, c *connection) ([]insight.Check, error) {
		ctx := command.Context()
		top, err := c.Top(ctx)
		if err != nil {
			return nil, err
		}
		overrides, err := c.Overrides(ctx)
		checks := c.Status(ctx, top, overrides)
		if err != nil && !insight.Unreachable(err) {
			checks[len(checks)-1] = insight.Check{Check: "overrides", Status: insight.Failed, Found: insight.OneLine(c.Hidden(err))}
			err = nil
		}
		return checks, err
	})
}

const pingLong = `Ping checks whether Redis does what the module needs: version, memory, persistence and
replication of every master, latency, and the rights of a worker and of an operator. For
these it counts a document of a separate customer, and forgets it again. The exit
status is 1 if a check failed, or if workers report that Redis lost what operators set.

  priorityctl ping`

func newPing() *cobra.Command {
	return newChecks("ping", pingLong, func(command *cobra.Command, c *connection) ([]insight.Check, error) {
		checks, err := c.Ping(command.Context())
		if loss := c.Loss(command.Context()); err == nil && loss != "" {
			checks = append(checks, insight.Check{Check: "data", Status: insight.Failed, Found: loss, Remedy: "see priorityctl status"})
		}
		return checks, err
	})
}

// newChecks returns a command that makes checks. A warning makes status fail, but not ping.
func newChecks(name, long string, of func(*cobra.Command, *connection) ([]insight.Check, error)) *cobra.Command {
	var connect connectionFlags
	var asJSON bool
	command := &cobra.Command{Use: name, Long: long}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		checks, err := of(command, c)
		if err != nil {
			return err
		}
		worst := insight.Worst(checks)
		if asJSON {
			err = writeJSON(command.OutOrStdout(), struct {
				OK     bool            `json:"ok"`
				Redis  string          `json:"redis"`
				Checks []insight.Check `json:"checks"`
			}{worst == insight.OK, c.Address, checks})
		} else {
			err = printChecks(command.OutOrStdout(), checks)
		}
		if err == nil && (worst == insight.Failed || worst == insight.Warning && name == "status") {
			err = statusError{exitFailed, errPrinted}
		}
		return err
	})
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func printChecks(w io.Writer, checks []insight.Check) error {
	var out strings.Builder
	for _, c := range checks {
		const indent = 22
		lines := strings.Split(insight.Wrap(c.Found, 79-indent), "\n")
		if c.Remedy != "" {
			lines = append(lines, strings.Split(insight.Wrap("→ "+c.Remedy, 79-indent), "\n")...)
		}
		fmt.Fprintf(&out, "%-12s %-8s %s\n", c.Check, c.Status, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
