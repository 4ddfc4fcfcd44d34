package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const forgetLong = `Forget removes all that Redis holds of customers: the count and the pending
documents, as reset does, and the override and the log's entries about them
too. It cannot be undone. Stop their documents first: the next one that arrives is
counted as a new customer's. docs/operate.md says what else names them, and until
when.

The log records by whom (-by, by default the user of this system) and -why, but not
who was forgotten: a -why that names the customer is refused. If it stops halfway,
it says so: run it again.

On a terminal it shows what will be forgotten and asks; anywhere else it needs -yes.

  priorityctl forget acme -why 'as asked in ticket 4711'
  priorityctl forget -yes -from left.json -why 'they left in May'

` + fromHelp

func newForget() *cobra.Command {
	command := &cobra.Command{
		Use:   "forget {CUSTOMER… | -from FILE} -why TEXT",
		Short: "Removes all that Redis holds of customers",
		Long:  forgetLong,
	}
	r := &removal{held: (*connection).HeldWithOverride, warn: (*connection).warnOfSenders}
	r.remove = func(c *connection, command *cobra.Command, ctx context.Context, customer string) (any, error) {
		return c.Forget(ctx, customer, r.author.author(command), r.author.why)
	}
	r.register(command, "", "why, for those who ask later; without the customer's name")
	return command
}

// warnOfSenders says which customers still send documents, by the workers' reports.
func (c *connection) warnOfSenders(command *cobra.Command, customers []string) {
	reports, err := c.Reports(command.Context())
	if err != nil {
		return
	}
	for _, busy := range fleet.Add(reports).Busiest {
		if slices.Contains(customers, busy.Customer) && busy.Documents > 0 {
			fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s sent %s in the last minute: stop them first\n",
				insight.Shown(busy.Customer), insight.Plural(busy.Documents, "document"))
		}
	}
}
