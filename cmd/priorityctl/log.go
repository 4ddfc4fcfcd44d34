package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const logLong = `Log prints what operators have changed, the newest first: who, when, what,
why. About the last 10,000 changes are kept. The times are Redis's.

  priorityctl log
  priorityctl log -customer acme
  priorityctl log -n 1000 -json`

func newLog() *cobra.Command {
	var connect connectionFlags
	queue := queueFlags{levels: defaultLevels}
	var customer string
	var most int
	var asJSON bool
	command := &cobra.Command{
		Use:               "log",
		Short:             "Prints who has changed what, when, and why",
		Long:              logLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if most < 1 || most > mostLogged {
				return usageError("-n %d is not from 1 to %d", most, mostLogged)
			}
			return nil
		},
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		read := most
		byCustomer := command.Flags().Changed("customer")
		if byCustomer {
			read = mostLogged
		}
		entries, err := c.Admin.Log(command.Context(), 0, read)
		if err != nil {
			return c.broken(c.readable(err))
		}
		var shown []control.Entry
		for _, entry := range entries {
			if len(shown) < most && (!byCustomer || entry.Customer == customer) {
				shown = append(shown, entry)
			}
		}
		c.warnOfLoss(command)
		history, _ := c.Admin.History(command.Context()) // without it, nothing was applied again
		return printLog(command.OutOrStdout(), shown, history, asJSON)
	})
	command.Flags().StringVar(&customer, "customer", "", "only what was changed of this customer")
	command.Flags().IntVarP(&most, "most", "n", 20, "how many changes, at most")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a change")
	connect.register(command)
	return command
}

const mostLogged = 10_000

func printLog(w io.Writer, entries []control.Entry, history []control.Item[control.Rules], asJSON bool) error {
	all := make([]insight.Logged, len(entries))
	for i, entry := range entries {
		all[i] = insight.LoggedOf(entry, history...)
	}
	if asJSON {
		return writeAll(w, all)
	}
	var out strings.Builder
	if len(all) == 0 {
		out.WriteString("Nothing was changed.\n")
	}
	for _, l := range all {
		fmt.Fprintf(&out, "%7d  %s  by %s\n", l.Version, insight.Moment(l.At), insight.Shown(l.By))
		indented(&out, 9, l.Says)
		indented(&out, 9, insight.Quoted(l.Why))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
