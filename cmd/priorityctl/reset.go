package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const resetLong = `Reset forgets customers' counts and what is pending, corrupt keys too: the next
document counts as the first and gets level 1. Documents in the queue stay there. With
-all it removes the override too, and so all that Redis has of a customer, except what
the log says, for 90 days. It cannot be undone. On a terminal it shows what goes and
asks; elsewhere it needs -yes.

  priorityctl reset acme
  priorityctl list -corrupt -json | priorityctl reset -yes -from -
  priorityctl reset acme -all -why 'as asked in ticket 4711'`

func newReset() *cobra.Command {
	var connect connectionFlags
	var flags changeFlags
	var from fromFlag
	var all, yes, asJSON bool
	command := &cobra.Command{Use: "reset {CUSTOMER… | -from FILE}", Long: resetLong, Args: from.check, DisableFlagsInUseLine: true}
	check := func(command *cobra.Command) error {
		if _, _, asks := environmentOf(command).terminal(command.InOrStdin()); !yes && !asks {
			return usageError("reset cannot be undone: give -yes where no one can be asked")
		}
		return flags.check(command)
	}
	command.RunE = connected(&connect, check, func(command *cobra.Command, c *connection, args []string) error {
		customers, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if !yes {
			if err := c.confirm(command, customers, all); err != nil {
				return err
			}
		}
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			done, err := c.Reset(ctx, customer, all, flags.change(command))
			if done.NotLogged != "" && err == nil {
				fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s was reset; the log could not be written: %s\n", insight.Shown(customer), done.NotLogged)
			}
			return done, err
		})
	})
	command.Flags().BoolVar(&all, "all", false, "remove the override too")
	flags.register(command)
	flags.why = "reset by priorityctl"
	command.Flags().Lookup("why").DefValue = flags.why
	from.register(command)
	command.Flags().BoolVar(&yes, "yes", false, "do not ask")
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

// confirm shows what will be lost, and asks.
func (c *connection) confirm(command *cobra.Command, customers []string, all bool) error {
	const most = 10
	ctx, prompt := command.Context(), command.ErrOrStderr()
	fmt.Fprintf(prompt, "On %s, with the prefix %s, this forgets:\n", c.Address, insight.Shown(c.Prefix))
	for i, customer := range customers {
		if i == most {
			fmt.Fprintf(prompt, "  … and %d more customers\n", len(customers)-most)
			break
		}
		fmt.Fprintf(prompt, "  %s: %s\n", insight.Shown(customer), c.Held(ctx, customer, all))
	}
	fmt.Fprintf(prompt, "It cannot be undone. Reset %s? [y/N] ", insight.Plural(int64(len(customers)), "customer"))
	answer, err := readLine(ctx, command.InOrStdin())
	if err != nil {
		fmt.Fprintln(prompt)
		return err
	}
	if answer := strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
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
