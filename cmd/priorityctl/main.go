// Priorityctl is for those who run a fleet on the priority module.
//
//	go run ./cmd/priorityctl simulate -scenario steady-flood
//	go run ./cmd/priorityctl tune trace.csv
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run returns the exit status: 0, or 1 after an error, which is then on stderr.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := newRoot()
	root.SetArgs(doubleDashes(root, args))
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(stderr, "priorityctl:", err)
		return 1
	}
	return 0
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "priorityctl",
		Short:         "Simulates, tunes and operates the levels of customers' documents",
		SilenceErrors: true, // run prints them
		SilenceUsage:  true,
	}
	root.AddCommand(newSimulate(), newTune())
	return root
}
