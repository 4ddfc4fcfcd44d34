package main

import (
	"context"
	"fmt"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const getLong = `Get says which level a customer's next document gets and why, by the rule that the
customer is counted by; what its documents got in the last hour, by the workers'
reports; and who has set an override, why and until when. It changes nothing.

  priorityctl get acme
  priorityctl list -level 9 -json | priorityctl get -from -

A customer is any bytes: -from names those that a shell cannot. Put a name that
begins with - after --.`

func newGet() *cobra.Command {
	var connect connectionFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{Use: "get {CUSTOMER… | -from FILE}", Long: getLong, Args: from.check, DisableFlagsInUseLine: true}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, args []string) error {
		customers, err := from.customers(command, args)
		if err != nil {
			return err
		}
		c.warn(command)
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			return c.Customer(ctx, customer)
		})
	})
	from.register(command)
	registerJSON(command, &asJSON)
	connect.registerPolicy(command)
	connect.register(command)
	return command
}

// warn says why the levels below may differ from the workers'.
func (c *connection) warn(command *cobra.Command) {
	if c.Unread != nil {
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl: operators' settings are ignored:", insight.OneLine(c.Hidden(c.Unread)))
	}
	if lost := c.Lost(); lost != "" {
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: Redis lost rules: %s; the levels below are by %s\n", lost, c.Name)
	}
}
