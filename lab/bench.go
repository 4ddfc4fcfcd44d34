package main

import (
	"context"
	"flag"
	"fmt"

	"github.com/docpriority/priority/lab/internal/bench"
)

const benchHelp = `Bench measures the module beside its peers, and its own calls beside each other,
on Redis servers that it starts and ends itself, in some ten minutes. It prints
Markdown tables of ratios: medians over rounds in which all take turns in random
order, with the least and the most. The targets that the module sets itself
stand below, met or missed.
`

func newBench(flags *flag.FlagSet) (action, string) {
	rounds := flags.Int("rounds", 9, "how many rounds count; one before them warms up")
	return func(ctx context.Context, with terminal, args []string) error {
		if *rounds < 1 || len(args) > 0 {
			return wrongCall(fmt.Errorf("it takes 1 round at least and no argument: %d rounds, %q", *rounds, args))
		}
		return bench.Run(ctx, *rounds, with.stdout, with.stderr)
	}, benchHelp
}
