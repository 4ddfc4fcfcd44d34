package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lab/internal/soak"
)

const soakHelp = `Soak puts a mixed load on a Redis server, and compares in the end what callers were told with
what the server counted. Every caller calls again as soon as it is answered, so the times
are those at that many callers. Of a hundred calls 75 are Next, and 5 each NextN, NextEach,
Submit, Done and Peek. Few of the customers have most of the documents (Zipf, exponent 1.1).

While it runs, do to the server what it has to bear: the exit status is 1 if a document was
lost or counted twice, or if goroutines or connections were left.

With -faults it does that itself, to a master and a replica of its own: they are killed and
restarted, stopped, filled and failed over, they close connections and forget scripts.
Meanwhile three members of a fleet serve a queue with floods and small customers, and
operators change rules and overrides, and reset and forget customers. The exit status is
also 1 if memory or goroutines grow, if a change has not its effect, if a document that is
done is pending in the end, or if a small customer waits longer than all would in the order
of arrival. The last line is a row of the table in docs/reliability.md.

The keys have a prefix of their own and are removed in the end.
`

func newSoak(flags *flag.FlagSet) (action, string) {
	var o soak.Options
	var withFaults bool
	flags.StringVar(&o.Redis, "redis", "", "the server's `address`, or the addresses of a cluster, host:port,host:port; empty: a server of its own")
	flags.BoolVar(&o.AutoPipeline, "autopipeline", false, "pipeline the calls of concurrent callers (go-redis's AutoPipeliner)")
	flags.BoolVar(&o.Fallback, "fallback", false, "answer from memory while the server does not")
	flags.DurationVar(&o.Timeout, "timeout", 250*time.Millisecond, "the store's timeout")
	flags.DurationVar(&o.For, "for", 30*time.Second, "how long to call")
	flags.IntVar(&o.Callers, "callers", 64, "how many callers call at once")
	flags.DurationVar(&o.Rest, "rest", 0, "how long a caller rests after each call")
	flags.BoolVar(&withFaults, "faults", false, "with faults, a fleet and operators, on servers of its own; sets -fallback")
	flags.IntVar(&o.Customers, "customers", 10_000, "how many customers there are")
	return func(ctx context.Context, with terminal, args []string) error {
		if len(args) > 0 {
			return wrongCall(errors.New("it takes no argument: " + strings.Join(args, " ")))
		}
		if err := o.Validate(); err != nil {
			return wrongCall(err)
		}
		if withFaults && o.Redis != "" {
			return wrongCall(errors.New("-faults has servers of its own: leave out -redis"))
		}
		logging.Disable() // the report has the errors
		if o.Redis != "" {
			return soaked(ctx, with, o)
		}
		var err error
		attempt := redistest.Try(ctx, func(tb testing.TB) {
			if withFaults {
				o.Site, o.Fallback = soak.StartSite(tb), true
			} else {
				o.Redis = redistest.Start(tb).Addr
			}
			err = soaked(ctx, with, o)
		})
		return errors.Join(err, attempt.Err())
	}, soakHelp
}

func soaked(ctx context.Context, with terminal, o soak.Options) error {
	fmt.Fprintf(with.stderr, "%d callers call %s for %v\n", o.Callers, cmp.Or(o.Redis, "a master with a replica"), o.For)
	found, err := soak.Run(ctx, o)
	if err != nil {
		return err
	}
	printSoak(with.stdout, found)
	if found.Fleet != nil {
		printFleet(with.stdout, found, o.For)
	}
	return found.Err()
}

func printSoak(to io.Writer, found *soak.Report) {
	table := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcalls\ta second\tp50 ms\tp99 ms\tmax ms\t")
	for _, o := range found.Operations {
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.2f\t%.2f\t%.2f\t\n", o.Name, o.Calls, o.Rate, o.P50, o.P99, o.Max)
	}
	table.Flush()
	fmt.Fprintf(to, "\n%v\n%v\n", found.Documents, found.Reconciliation)
	for class, first := range found.Errors {
		fmt.Fprintf(to, "the first error that is %s: %v\n", class, first)
	}
	fmt.Fprintf(to, "heap in use: %d KB before, %d KB after; goroutines: %d before, %d after\n",
		found.Before.Heap>>10, found.After.Heap>>10, found.Before.Goroutines, found.After.Goroutines)
}

// printFleet prints what a soak with faults found, and its row of the table of all soaks.
func printFleet(to io.Writer, found *soak.Report, during time.Duration) {
	f := found.Fleet
	total := 0
	for _, name := range slices.Sorted(maps.Keys(f.Faults)) {
		fmt.Fprintf(to, "%s: %d times\n", name, f.Faults[name])
		total += f.Faults[name]
	}
	fmt.Fprintf(to, "operators: %d changes made, %d refused or of unknown outcome\n", f.Made, f.Refused)
	fmt.Fprintf(to, "waits of small customers: %v\nwaits of floods: %v\n", f.Small, f.Flood)
	fmt.Fprintf(to, "in the order of arrival all would wait for %v\n", f.InOrder.Round(time.Millisecond))
	fmt.Fprintf(to, "documents that are done, and pending: %d\n", f.Pending)
	books := found.Reconciliation
	fmt.Fprintf(to, "SOAK | %v | %d | %d | %d | %d | heap %d → %d MB, Redis %d → %d MB, goroutines %d → %d | %v |\n",
		during, found.Documents.Documents+int(f.Small.Documents+f.Flood.Documents), total, books.Missing, books.Extra+books.Twice,
		f.First.Heap>>20, f.Last.Heap>>20, f.First.Redis>>20, f.Last.Redis>>20, f.First.Goroutines, f.Last.Goroutines,
		f.Small.Worst.Round(10*time.Millisecond))
}
