// Priorityctl operates a fleet that uses the priority module.
//
//	go run ./cmd/priorityctl status
//	go run ./cmd/priorityctl get acme
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	env := environment{os.Getenv, defaultURL, terminalOf, keysOf, insight.Connect}
	os.Exit(run(ctx, env, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// output is the standard output. It remembers why it could not be written.
type output struct {
	io.Writer
	failed error
}

func (o *output) Write(text []byte) (int, error) {
	n, err := o.Writer.Write(text)
	o.failed = cmp.Or(o.failed, err)
	return n, err
}

// run returns the exit status; the error behind it is then on stderr.
func run(ctx context.Context, env environment, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetIn(stdin)
	out := &output{Writer: stdout}
	root.SetOut(out)
	root.SetErr(stderr)
	usageErrors(root)
	root.SetArgs(doubleDashes(root, args))
	err := root.ExecuteContext(env.in(ctx))
	if out.failed != nil {
		err = statusError{exitFailed, fmt.Errorf("cannot write the output: %w", out.failed)}
	}
	if err != nil && !errors.Is(err, errPrinted) {
		fmt.Fprintln(stderr, "priorityctl:", insight.OneLine(err))
	}
	return exitStatus(err)
}

const rootLong = `Priorityctl operates a fleet that uses the priority module.

  priorityctl status             is all well, and what to do if not?
  priorityctl get acme           why is this customer slow, and until when?
  priorityctl top                what documents get, and who sends most, live
  priorityctl workers            which processes work, and which do not follow
  priorityctl list -level 9      who gets level 9 next, or has documents there
  priorityctl ping               does this Redis do what the module needs?
  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl override list      also: override end
  priorityctl policy             what decides; also: check, apply, history,
                                 rollback, withdraw
  priorityctl reset acme         forget a customer's numbers; -all: everything
  priorityctl log                who has changed what, and why
  priorityctl control export     save what operators set; also: control import
  priorityctl serve              the same in a browser, read-only

COMMAND -help says more, and COMMAND -help-connection how to name Redis. -json
prints one JSON object a line. Exit statuses: 0 it worked, 1 it failed, or there is
something to do, 2 the call was wrong, 3 Redis cannot be reached, 4 some customers
failed, or are on a master that cannot, 5 it may have been done: look first, 130
interrupted.`

func newRoot() *cobra.Command {
	flags := new(connectionFlags)
	root := &cobra.Command{
		Use:  "priorityctl",
		Long: rootLong,
		RunE: func(command *cobra.Command, _ []string) error {
			if flags.help {
				_, err := fmt.Fprintln(command.OutOrStdout(), connectionHelp)
				return err
			}
			return command.Help()
		},
		Version:       version(),
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	flags.register(root.PersistentFlags()) // so that they may be before the command, which reads them
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetHelpFunc(showHelp)
	root.AddCommand(
		newStatus(), newGet(), newTop(), newWorkers(), newList(), newPing(),
		newOverride(), newPolicy(), newReset(), newLog(), newControl(), newServe(),
	)
	return root
}

// version is the module's after go install, the commit's pseudo-version in a repository.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return runtime.Version()
	}
	return "priorityctl " + info.Main.Version + ", " + runtime.Version()
}
