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

// removal is a command that removes something of customers, once it has asked.
type removal struct {
	// held says what Redis holds of a customer, and is to be removed.
	held func(c *connection, ctx context.Context, customer string) string

	// warn says what speaks against it; nil: nothing can.
	warn func(c *connection, command *cobra.Command, customers []string)

	remove func(c *connection, command *cobra.Command, ctx context.Context, customer string) (any, error)

	connect     connectionFlags
	policies    policyOfFlags
	author      changeFlags
	from        fromFlag
	yes, asJSON bool
}

// register makes the command ask and remove, with its flags. Without a why, -why has none.
func (r *removal) register(command *cobra.Command, why, whyHelp string) {
	command.Args = r.from.check
	command.ValidArgsFunction = cobra.NoFileCompletions
	command.Long += "\n\n" + connectionHelp + "\n\n" + exitHelp
	command.PreRunE = func(command *cobra.Command, _ []string) error {
		if !r.yes && !isTerminal(command.InOrStdin()) {
			return usageError("%s cannot be undone: give -yes where nobody can be asked", command.Name())
		}
		if why == "" {
			return r.author.checkWhy()
		}
		return nil
	}
	command.RunE = connected(&r.connect, &r.policies, r.run)
	command.Flags().StringVar(&r.author.by, "by", "", "who does it (default: the user of this system)")
	command.Flags().StringVar(&r.author.why, "why", why, whyHelp)
	r.from.register(command)
	command.Flags().BoolVar(&r.yes, "yes", false, "do not ask")
	command.Flags().BoolVar(&r.asJSON, "json", false, "print one JSON object a customer")
	r.connect.register(command)
	r.policies.register(command)
}

func (r *removal) run(command *cobra.Command, c *connection, args []string) error {
	lines, err := r.from.customers(command, args)
	if err != nil {
		return err
	}
	customers := names(lines)
	// Without what operators have set, the levels that are shown may be wrong.
	if err := c.mustFollow(command); insight.Unreachable(err) {
		return err
	}
	if !r.yes {
		if r.warn != nil {
			r.warn(c, command, customers)
		}
		if err := r.confirm(c, command, customers); err != nil {
			return err
		}
	}
	return eachCustomer(command, c, customers, r.asJSON, func(ctx context.Context, customer string) (any, error) {
		return r.remove(c, command, ctx, customer)
	})
}

// confirm shows what will be lost, and asks.
func (r *removal) confirm(c *connection, command *cobra.Command, customers []string) error {
	ctx, prompt := command.Context(), command.ErrOrStderr()
	fmt.Fprintf(prompt, "On %s, with the prefix %s, this forgets:\n", c.Server.Address, insight.Shown(c.Prefix))
	const most = 10
	for i, customer := range customers {
		if i == most && len(customers) > most+1 {
			fmt.Fprintf(prompt, "  … and %d customers more\n", len(customers)-most)
			break
		}
		fmt.Fprintf(prompt, "  %s: %s\n", insight.Shown(customer), r.held(c, ctx, customer))
	}
	verb := command.Name()
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

func isTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}
