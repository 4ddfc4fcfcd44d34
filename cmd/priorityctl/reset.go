package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const resetLong = `Reset forgets customers' counts, pending documents and usage: the next document
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
	var connect connectionFlags
	var policies policyOfFlags
	var author changeFlags
	var from fromFlag
	var yes, asJSON bool
	command := &cobra.Command{
		Use:               "reset {CUSTOMER… | -from FILE}",
		Short:             "Forgets customers' counts, pending documents and usage",
		Long:              resetLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              from.check,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(command *cobra.Command, _ []string) error {
			if !yes && !isTerminal(command.InOrStdin()) {
				return usageError("reset cannot be undone: give -yes where nobody can be asked")
			}
			return nil
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		customers := names(lines)
		// Without what operators have set, the levels shown may be wrong.
		if err := c.mustFollow(command); insight.Unreachable(err) {
			return err
		}
		if !yes {
			if err := c.confirm(command, customers, "reset", func(customer string) string { return c.Held(command.Context(), customer) }); err != nil {
				return err
			}
		}
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			forgotten, err := c.Reset(ctx, customer, author.author(command), author.why)
			if forgotten.NotLogged != "" && err == nil {
				fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s was reset; the log could not be written: %s\n", insight.Shown(customer), strings.TrimPrefix(forgotten.NotLogged, "not changed: "))
			}
			return forgotten, err
		})
	})
	command.Flags().StringVar(&author.by, "by", "", "who does it (default: the user of this system)")
	command.Flags().StringVar(&author.why, "why", "reset by priorityctl", "why, for those who ask later")
	from.register(command)
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	connect.register(command)
	policies.register(command)
	return command
}

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// confirm shows what will be lost and asks. The verb is what the command does to a customer.
func (c *connection) confirm(command *cobra.Command, customers []string, verb string, held func(customer string) string) error {
	ctx, prompt := command.Context(), command.ErrOrStderr()
	fmt.Fprintf(prompt, "On %s, with the prefix %s, this forgets:\n", c.Server.Address, insight.Shown(c.Prefix))
	const most = 10
	for i, customer := range customers {
		if i == most && len(customers) > most+1 {
			fmt.Fprintf(prompt, "  … and %d customers more\n", len(customers)-most)
			break
		}
		fmt.Fprintf(prompt, "  %s: %s\n", insight.Shown(customer), held(customer))
	}
	fmt.Fprintf(prompt, "It cannot be undone. %s %s? [y/N] ", strings.ToUpper(verb[:1])+verb[1:], insight.Plural(int64(len(customers)), "customer"))
	answer, err := readLine(ctx, command.InOrStdin())
	if err != nil {
		fmt.Fprintln(prompt)
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("nothing was changed")
}

// readLine reads a line, unless the context ends first. The goroutine that reads
// then stays behind: a read of a terminal cannot be interrupted.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	lines := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(in).ReadString('\n')
		lines <- line
	}()
	select {
	case line := <-lines:
		return line, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
