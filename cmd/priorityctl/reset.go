package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const resetLong = `Reset forgets customers' counts and what is pending, corrupt keys too: the next
document counts as the first and gets level 1. Documents in the queue stay there. With
-all it removes the override too, and so all that Redis has of a customer, except what
the log says, for 90 days. An account and its users are reset one by one; a user's
documents count in the account until they are done. It cannot be undone. On a terminal it shows what goes and
asks; elsewhere it needs -yes.

  priorityctl reset acme
  priorityctl list -corrupt -json | priorityctl reset -yes -from -
  priorityctl reset acme -all -why 'as asked in ticket 4711'`

func newReset() *cobra.Command {
	flags := changeFlags{why: "reset by priorityctl"}
	var from fromFlag
	command := &cobra.Command{Use: "reset {CUSTOMER… | -from FILE}", Long: resetLong, DisableFlagsInUseLine: true}
	all := command.Flags().Bool("all", false, "remove the override too")
	flags.register(command)
	from.register(command)
	yes := command.Flags().Bool("yes", false, "do not ask")
	registerJSON(command)
	check := func(command *cobra.Command) error {
		if _, _, asks := environmentOf(command).terminal(command.InOrStdin()); !*yes && !asks {
			return usageError("reset cannot be undone: give -yes where no one can be asked")
		}
		return flags.check(command)
	}
	return looking(command, check, func(c *call, s *insight.Snapshot, args []string) error {
		names, err := from.customers(c, args)
		if err == nil && !*yes {
			err = c.confirm(s, names, *all)
		}
		if err != nil {
			return err
		}
		return c.eachCustomer(names, func(name string) (any, error) {
			removal, err := s.Reset(c.ctx(), name, *all, flags.change(c))
			if removal.NotLogged != "" {
				c.note("%s: %s", insight.Shown(name), removal.NotLogged)
			}
			return removal, err
		})
	})
}

// confirm shows what will be lost, and asks.
func (c *call) confirm(s *insight.Snapshot, names []string, all bool) error {
	const most = 10
	prompt := c.command.ErrOrStderr()
	fmt.Fprintf(prompt, "On %s, with the prefix %s, this forgets:\n", c.Address, insight.Shown(c.Prefix))
	for i, name := range names {
		if i == most {
			fmt.Fprintf(prompt, "  … and %d more customers\n", len(names)-most)
			break
		}
		contents, _ := s.Contents(c.ctx(), name, all) // an error is in them, too
		fmt.Fprintf(prompt, "  %s: %s\n", insight.Shown(name), contents)
	}
	fmt.Fprintf(prompt, "It cannot be undone. Reset %s? [y/N] ", insight.Plural(int64(len(names)), "customer"))
	answer, err := readLine(c.ctx(), c.command.InOrStdin())
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
