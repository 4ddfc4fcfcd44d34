package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const getLong = `Get tells which level a customer's next document gets and why, by the rule that
the customer is counted by: the count, or the load, which is what was submitted
lately × what is pending × what the documents cost. It changes nothing. Of an
override it tells until when, by whom and why, and what the level is without it.

  priorityctl get acme
  priorityctl get acme 'Müller & Co' -json
  priorityctl list -level 9 -json | priorityctl get -from -
  priorityctl get -policy gold.json acme   # workers with a policy of their own

` + fromHelp + `

` + followHelp + `
The lease is that of a fleet that sets none.`

func newGet() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use:               "get {CUSTOMER… | -from FILE}",
		Short:             "Tells why a customer is slow, and until when",
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

// eachCustomer does something for each customer and prints the result, or the
// failure on stderr. With -json, failures are printed as results are.
func eachCustomer(command *cobra.Command, c *connection, customers []string, asJSON bool, do func(ctx context.Context, customer string) (any, error)) error {
	ctx, out := command.Context(), command.OutOrStdout()
	failed := 0
	for i, customer := range customers {
		if ctx.Err() != nil {
			break
		}
		result, err := do(ctx, customer)
		var invalid bool
		if err != nil {
			failed++
			var known statusError
			invalid = errors.Is(err, priority.ErrInvalid) || errors.As(err, &known)
			err = c.Hidden(err)
			if insight.Unreachable(err) && !invalid {
				err = fmt.Errorf("cannot reach %s any more: %w", c.Server.Address, err)
			}
		}
		switch {
		case err != nil && asJSON:
			if err := writeJSON(out, failure{insight.NameOf(customer), insight.OneLine(err)}); err != nil {
				return err
			}
		case err != nil:
			fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s\n", insight.OneLine(err))
		case asJSON:
			if err := writeJSON(out, result); err != nil {
				return err
			}
		default:
			if i > 0 && strings.Contains(fmt.Sprint(result), "\n") {
				fmt.Fprintln(out)
			}
			if _, err := fmt.Fprintln(out, result); err != nil {
				return err
			}
		}
		if insight.Unreachable(err) && !invalid {
			return statusError{exitUnreachable, nil}
		}
		if invalid && len(customers) == 1 {
			return statusError{exitUsage, nil}
		}
	}
	return failures(ctx, failed, len(customers))
}

type failure struct {
	insight.Name
	Error string `json:"error"`
}
