package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
)

const logLong = `Log prints what operators have changed in the last 90 days, the newest first: who,
when, what, why. At most about 10,000 changes are kept. The times are Redis's.

  priorityctl log
  priorityctl log -customer acme`

const mostLogged = 10_000

func newLog() *cobra.Command {
	command := &cobra.Command{Use: "log", Long: logLong}
	customer := command.Flags().String("customer", "", "only changes to this customer")
	most := command.Flags().IntP("most", "n", 20, "how many changes, at most")
	registerJSON(command)
	check := func(*cobra.Command) error {
		if *most < 1 || *most > mostLogged {
			return usageError("-n %d is not from 1 to %d", *most, mostLogged)
		}
		return nil
	}
	return connected(command, check, func(c *call, _ []string) error {
		read := *most
		if *customer != "" {
			read = mostLogged
		}
		entries, err := c.Admin.Log(c.ctx(), "", read)
		if err != nil {
			return err
		}
		entries = slices.DeleteFunc(entries, func(e control.Entry) bool { return *customer != "" && e.Customer != *customer })
		if len(entries) == 0 && !c.asJSON {
			fmt.Fprintln(c.out, "The log has no such change.")
		}
		for _, entry := range entries[:min(*most, len(entries))] {
			l := insight.LoggedOf(entry)
			if c.asJSON {
				if err := writeJSON(c.out, l); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(c.out, "%s  by %s\n", insight.Moment(l.At), insight.Shown(l.By))
			indented(c.out, 2, l.Says+": "+insight.Quoted(l.Why))
		}
		return nil
	})
}
