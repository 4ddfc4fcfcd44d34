package main

import (
	"context"
	"fmt"

	"github.com/docpriority/priority/fleet"
	"github.com/spf13/cobra"
)

const getLong = `Get says which level a customer's next document gets and why,
by the rule that the customer is counted by: the count, or the load (submitted
recent × pending × cost). It also says how long documents of that level took in
the last minute, as the workers report. If the customer has an override, it says
who set it, why and until when, and which level the rule would give. It changes
nothing.

  priorityctl get acme
  priorityctl get acme 'Müller & Co' -json
  priorityctl list -level 9 -json | priorityctl get -from -
  priorityctl get -policy gold.json acme   # workers with a policy of their own

` + fromHelp + `

` + followHelp + `
The lease assumes that the fleet sets no Lease.`

func newGet() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use:               "get {CUSTOMER… | -from FILE}",
		Short:             "Says why a customer is slow, and until when",
		Long:              getLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              from.check,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if err := c.follow(command); err != nil {
			return err
		}
		c.readWaits(command)
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			return c.Customer(ctx, customer)
		})
	})
	from.register(command)
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	connect.register(command)
	policies.register(command)
	return command
}

// readWaits reads how long documents took, if that is allowed, and warns if the workers
// follow other rules than the levels shown.
func (c *connection) readWaits(command *cobra.Command) {
	reports, err := c.Reports(command.Context())
	if err != nil {
		return
	}
	c.Waits = fleet.Add(reports).Waits
	if kept := c.Kept(reports); kept != "" {
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: workers follow %s; the levels below are by %s\n", kept, c.Policy.Name)
	}
}
