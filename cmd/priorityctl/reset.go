package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const resetLong = `Reset forgets customers' counts and pending documents: the next document
is counted as the first and gets level 1. It also removes corrupt values. It
cannot be undone.

It is recorded in the log first: by whom (-by, by default the user of this
system) and -why. If the log cannot be written, for instance because a right is
missing, it says so and still resets the customer: a reset is often urgent.
An override stays, and so do the log's entries: see forget.

On a terminal it shows what will be forgotten and asks; anywhere else it needs -yes.

  priorityctl reset acme
  priorityctl list -level 9 -json | priorityctl reset -yes -from -
  priorityctl list -corrupt -json | priorityctl reset -yes -from -

` + fromHelp

func newReset() *cobra.Command {
	command := &cobra.Command{
		Use:   "reset {CUSTOMER… | -from FILE}",
		Short: "Forgets customers' counts and pending documents",
		Long:  resetLong,
	}
	r := &removal{held: (*connection).Held}
	r.remove = func(c *connection, command *cobra.Command, ctx context.Context, customer string) (any, error) {
		forgotten, err := c.Reset(ctx, customer, r.author.author(command), r.author.why)
		if forgotten.NotLogged != "" && err == nil {
			fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s was reset; the log could not be written: %s\n", insight.Shown(customer), strings.TrimPrefix(forgotten.NotLogged, "not changed: "))
		}
		return forgotten, err
	}
	r.register(command, "reset by priorityctl", "why, for those who ask later")
	return command
}
