package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const statusLong = `Status says on one screen whether all is well, and what to do if not: Redis, the
policies, the workers, how long level 1 waits, who floods, the overrides. The exit
status is 0 if all is well, 1 if there is something to do, and 3 if Redis cannot be
reached.

  priorityctl status
  priorityctl status -json        for a probe`

func newStatus() *cobra.Command {
	return newChecks("status", statusLong, insight.Warning, func(c *call, s *insight.Snapshot) ([]insight.Check, error) {
		top, err := s.Top(c.ctx())
		if err != nil {
			return nil, err
		}
		overrides, err := s.Overrides(c.ctx())
		checks := s.Status(c.ctx(), top, overrides)
		if err != nil && !s.NoneLeft(err) {
			checks, err = s.OverridesUnread(checks, err), nil
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
	return newChecks("ping", pingLong, insight.Failed, func(c *call, s *insight.Snapshot) ([]insight.Check, error) {
		checks, err := s.Ping(c.ctx())
		if loss := s.Loss(c.ctx()); err == nil && loss != nil {
			checks = append(checks, *loss)
		}
		return checks, err
	})
}

// newChecks returns a command that makes checks. It fails if one has failed, or is as bad as that. A
// Redis that cannot be reached is one, too.
func newChecks(name, long string, bad insight.Outcome, check func(c *call, s *insight.Snapshot) ([]insight.Check, error)) *cobra.Command {
	command := &cobra.Command{Use: name, Long: long}
	registerJSON(command)
	return onRedis(command, nil, func(c *call, _ []string) error {
		var checks []insight.Check
		s, err := c.look()
		if err == nil {
			checks, err = check(c, s)
		}
		reached := !c.unreached(err)
		if !reached {
			checks, err = []insight.Check{c.Unreached(err)}, nil
		}
		if err != nil {
			return err
		}
		worst := insight.Worst(checks)
		if c.asJSON {
			err = writeJSON(c.out, struct {
				OK     bool            `json:"ok"`
				Redis  string          `json:"redis"`
				Checks []insight.Check `json:"checks"`
			}{worst == insight.OK, c.Address, checks})
		} else {
			err = c.printChecks(checks)
		}
		if err == nil && !reached {
			err = statusError{exitUnreachable, errPrinted}
		}
		if err == nil && (worst == insight.Failed || worst == bad) {
			err = statusError{exitFailed, errPrinted}
		}
		return err
	})
}

// printChecks prints checks as wide as the terminal, or else as 79 columns.
func (c *call) printChecks(checks []insight.Check) error {
	env := environmentOf(c.command)
	width, paint := 79, env.paint(c.out)
	if columns, _, ok := env.terminal(c.out); ok {
		width = max(columns-1, 50)
	}
	styles := map[insight.Outcome]string{insight.OK: green, insight.Warning: yellow, insight.Failed: red}
	var out strings.Builder
	for _, check := range checks {
		const indent = 22
		lines := strings.Split(insight.Wrap(check.Found, width-indent), "\n")
		if check.Remedy != "" {
			lines = append(lines, strings.Split(insight.Wrap("→ "+check.Remedy, width-indent), "\n")...)
		}
		fmt.Fprintf(&out, "%-12s %s %s\n", check.Check, paint(styles[check.Status], fmt.Sprintf("%-8s", check.Status)), lines[0])
		for _, line := range append(lines[1:], check.List...) {
			fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
		}
	}
	_, err := io.WriteString(c.out, out.String())
	return err
}
