package main

import (
	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const getLong = `Get says which level a customer's next document gets and why, by the rule that the
customer is counted by; what its documents got in the last hour, by the workers'
reports; and who has set an override, why and until when. It changes nothing. Where the
fleet splits names, acme is an account, with who of its users sends most; of acme/mary it
shows both loads, and which one decides.

  priorityctl get acme
  priorityctl get acme/mary
  priorityctl list -level 9 -json | priorityctl get -from -

A customer is any bytes: -from names those that a shell cannot. Put a name that
begins with - after --.`

func newGet() *cobra.Command {
	command := &cobra.Command{Use: "get {CUSTOMER… | -from FILE}", Long: getLong, DisableFlagsInUseLine: true}
	var from fromFlag
	from.register(command)
	registerJSON(command)
	registerPolicy(command)
	return looking(command, nil, func(c *call, s *insight.Snapshot, args []string) error {
		names, err := from.customers(c, args)
		if err != nil {
			return err
		}
		c.warn(s)
		c.warnBelow(s)
		return c.eachCustomer(names, func(name string) (any, error) { return s.Customer(c.ctx(), name) })
	})
}
