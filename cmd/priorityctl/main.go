// Priorityctl is for those who run a fleet on the priority module.
//
//	go run ./cmd/priorityctl get acme
//	go run ./cmd/priorityctl top
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := environment{getenv: os.Getenv, defaultURL: defaultURL}
	os.Exit(run(ctx, env, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit status; the error behind it is then on stderr.
func run(ctx context.Context, env environment, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	addCobras(root)
	tellUsage(root)
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(env.in(ctx))
	if err != nil && !told(err) {
		fmt.Fprintln(stderr, "priorityctl:", insight.OneLine(err))
	}
	return exitStatus(err)
}

// addCobras adds cobra's own commands early, so that their usage errors end as all
// others do. They print to where the root prints then.
func addCobras(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, command := range root.Commands() {
		if command.Name() == "help" {
			command.Args = unknownTopic
		}
	}
}

const rootLong = `Priorityctl is for those who run a fleet on the priority module.

  priorityctl ping                    does this Redis do what the module needs?
  priorityctl get acme                why is this customer slow, and until when?
  priorityctl top                     what documents get, and who sends most
  priorityctl workers                 who is there, and who does not obey
  priorityctl list -level 9           every customer at the last level
  priorityctl reset acme              forget a customer's numbers
  priorityctl forget acme             remove all that Redis holds of a customer
  priorityctl policy                  what the levels mean
  priorityctl override set acme -level 1 -for 2h -why 'the demo'
                                      process a customer's documents first
  priorityctl policy apply team.json -why 'fewer levels'
                                      change the policy of the whole fleet
  priorityctl control export          save what operators have set
  priorityctl log                     who has changed what

Flags are written with one dash or with two. -json prints one JSON object a line.
`

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "priorityctl",
		Short:         "Shows and steers the levels of customers' documents",
		Long:          rootLong + "\n" + exitHelp,
		Args:          unknownCommand,
		RunE:          func(command *cobra.Command, _ []string) error { return command.Help() },
		Version:       version(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetUsageTemplate(usage.Replace(root.UsageTemplate()))
	operate := cobra.Group{ID: "operate", Title: "Operate a fleet:"}
	steer := cobra.Group{ID: "steer", Title: "Steer it while it runs:"}
	root.AddGroup(&operate, &steer)
	for _, command := range []*cobra.Command{newPing(), newTop(), newWorkers(), newGet(), newList(), newReset(), newForget()} {
		command.GroupID = operate.ID
		root.AddCommand(command)
	}
	for _, command := range []*cobra.Command{newOverride(), newPolicy(), newControl(), newLog(), newServe()} {
		command.GroupID = steer.ID
		root.AddCommand(command)
	}
	wrapHelp(root)
	return root
}
