package main

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/spf13/cobra"
)

const logLong = `Log prints what operators have changed in the last 90 days, the newest first: who,
when, what, why. At most about 10,000 changes are kept. The times are Redis's.

  priorityctl log
  priorityctl log -customer acme`

const mostLogged = 10_000

func newLog() *cobra.Command {
	var connect connectionFlags
	var customer string
	var most int
	var asJSON bool
	command := &cobra.Command{Use: "log", Long: logLong}
	command.RunE = connected(&connect, func(*cobra.Command) error {
		if most < 1 || most > mostLogged {
			return usageError("-n %d is not from 1 to %d", most, mostLogged)
		}
		return nil
	}, func(command *cobra.Command, c *connection, _ []string) error {
		read := most
		if customer != "" {
			read = mostLogged
		}
		entries, err := c.Admin.Log(command.Context(), "", read)
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e control.Entry) bool { return customer != "" && e.Customer != customer })
		out := command.OutOrStdout()
		if len(entries) == 0 && !asJSON {
			fmt.Fprintln(out, "The log has no such change.")
		}
		for _, entry := range entries[:min(most, len(entries))] {
			l := insight.LoggedOf(entry)
			if asJSON {
				if err := writeJSON(out, l); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(out, "%s  by %s\n", insight.Moment(l.At), insight.Shown(l.By))
			indented(out, 2, l.Says+": "+insight.Quoted(l.Why))
		}
		return nil
	})
	command.Flags().StringVar(&customer, "customer", "", "only changes to this customer")
	command.Flags().IntVarP(&most, "most", "n", 20, "how many changes, at most")
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}
