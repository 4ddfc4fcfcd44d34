package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const pingLong = `Ping checks whether this Redis does what the module needs: version, latency,
rights, scripts, memory and replication, on every master of a cluster. For the
rights it counts a document of a customer of its own, and forgets it again.

Each check is ok, a warning, or failed, with what to do. The exit status is 1 if a
check failed.`

func newPing() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var asJSON bool
	count := 0
	command := &cobra.Command{
		Use:               "ping",
		Short:             "Checks whether Redis does what the module needs",
		Long:              pingLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if count < 1 || count > 100_000 {
				return usageError("-count %d is not from 1 to 100000", count)
			}
			return nil
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		health, err := c.Health(command.Context(), count)
		if err != nil {
			return c.broken(err)
		}
		if err := printHealth(command.OutOrStdout(), health, asJSON); err != nil {
			return err
		}
		if !health.OK {
			return statusError{exitFailed, nil}
		}
		return nil
	})
	command.Flags().IntVar(&count, "count", 20, "how many round trips to measure")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	connect.register(command)
	policies.register(command)
	return command
}

func printHealth(w io.Writer, health *insight.Health, asJSON bool) error {
	if asJSON {
		return writeJSON(w, health)
	}
	var out strings.Builder
	for _, check := range health.Checks {
		found := check.Found
		if check.Node != "" {
			found = check.Node + ": " + found
		}
		const indent = 22
		lines := strings.Split(insight.Wrap(found, 79-indent), "\n")
		if check.Remedy != "" {
			lines = append(lines, strings.Split(insight.Wrap("→ "+check.Remedy, 79-indent), "\n")...)
		}
		fmt.Fprintf(&out, "%-12s %-8s %s\n", check.Check, check.Status, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(&out, "%*s%s\n", indent, "", line)
		}
	}
	_, err := io.WriteString(w, out.String())
	return err
}
