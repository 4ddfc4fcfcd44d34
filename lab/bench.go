package main

import (
	"context"
	"errors"
	"flag"
	"strings"

	"github.com/docpriority/priority/lab/internal/bench"
)

const benchHelp = `Bench measures the module beside its peers, and its own calls beside each other, on Redis
servers that it starts and ends itself, in some ten minutes. It prints Markdown tables of
ratios: medians over rounds in which all take turns in random order, with the least and
the most. The targets that the module sets itself stand below, met or missed.
`

func newBench(flags *flag.FlagSet) (action, string) {
	tables := listFlag(bench.Tables())
	flags.Var(&tables, "table", "which `tables`")
	rounds := flags.Int("rounds", 9, "how many rounds count; one before them does not")
	pin := flags.Bool("pin", bench.CanPin(), "give redis-server a CPU of its own (needs taskset and 2 CPUs)")
	return func(ctx context.Context, with terminal, args []string) error {
		options := bench.Options{Tables: tables, Rounds: *rounds, Pin: *pin}
		if err := options.Validate(); err != nil {
			return wrongCall(err)
		}
		if len(args) > 0 {
			return wrongCall(errors.New("it takes no argument: " + strings.Join(args, " ")))
		}
		return bench.Run(ctx, options, with.stdout, with.stderr)
	}, benchHelp
}
