// Command bench measures the module beside its peers, and its own calls beside
// each other, on real Redis servers that it starts and ends itself. From the root
// of the repository:
//
//	go run ./bench
//
// It prints Markdown tables of ratios: medians over rounds in which all take
// turns in random order, with the least and the most. The bars that the module
// sets itself stand below, held or not. Progress goes to the standard error.
//
// The tables are peers, scripts, policies, trips, pending, control, scale
// and cluster; -table picks some of them. -svg writes the table of the peers as a chart.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	logging.Disable() // what go-redis would write is in its errors too
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := command(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// The command's exit statuses.
const (
	statusOK = iota
	statusFailed
	statusUsage
)

// command runs the command line and returns the exit status.
func command(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	}
	if err := run(ctx, opts, fullSize(opts.rounds), stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return statusFailed
	}
	return statusOK
}

// options are what the command line says.
type options struct {
	tables []string
	rounds int
	svg    string // empty: no chart
	pin    bool
}

// parse reads the command line. It has told the user of an error that it returns.
func parse(args []string, stderr io.Writer) (options, error) {
	var opts options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	names := flags.String("table", strings.Join(tableNames(), ","), "which `tables`")
	flags.IntVar(&opts.rounds, "rounds", 9, "how many rounds count; one before them does not")
	flags.StringVar(&opts.svg, "svg", "", "write the peers as a chart to this `file`")
	flags.BoolVar(&opts.pin, "pin", canPin(), "give redis-server a CPU of its own (needs taskset and 2 CPUs)")
	if err := flags.Parse(args); err != nil {
		return opts, err
	}
	opts.tables = strings.Split(*names, ",")
	if err := opts.check(flags.Args()); err != nil {
		fmt.Fprintf(stderr, "bench: %v\n", err)
		flags.Usage()
		return opts, err
	}
	return opts, nil
}

func (o options) check(rest []string) error {
	if len(rest) > 0 {
		return fmt.Errorf("what is %q?", rest[0])
	}
	for _, name := range o.tables {
		if !slices.Contains(tableNames(), name) {
			return fmt.Errorf("there is no table %q", name)
		}
	}
	switch {
	case o.rounds < 1:
		return fmt.Errorf("-rounds is %d, and must be at least 1", o.rounds)
	case o.svg != "" && !slices.Contains(o.tables, "peers"):
		return errors.New("-svg draws the table of the peers, which -table leaves out")
	case o.pin && !canPin():
		return errors.New("-pin needs taskset and at least 2 CPUs")
	}
	return nil
}

// tables are what can be measured, in the order in which it is.
var tables = []struct {
	name    string
	measure func(context.Context, *bench) (*report, error)
}{
	{"peers", measurePeers},
	{"scripts", measureScripts},
	{"policies", measurePolicies},
	{"trips", measureTrips},
	{"pending", measurePending},
	{"control", measureControl},
	{"scale", measureScale},
	{"cluster", measureCluster},
}

func tableNames() []string {
	names := make([]string, len(tables))
	for i, table := range tables {
		names[i] = table.name
	}
	return names
}

// run measures, and prints each table as soon as it is complete.
func run(ctx context.Context, opts options, size size, stdout, stderr io.Writer) (err error) {
	b := &bench{size: size, progress: stderr}
	if opts.pin {
		if b.pin, err = pinClient(ctx); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, moveClient(context.WithoutCancel(ctx), b.pin.all)) }()
	}
	began := time.Now()
	if err := b.writeSetting(ctx, stdout); err != nil {
		return err
	}
	for _, table := range tables {
		if !slices.Contains(opts.tables, table.name) {
			continue
		}
		report, err := table.measure(ctx, b)
		if err != nil {
			return fmt.Errorf("table %s: %w", table.name, err)
		}
		if err := report.write(stdout); err != nil {
			return err
		}
		if opts.svg != "" && report.chart != nil {
			if err := os.WriteFile(opts.svg, report.chart.svg(), 0o666); err != nil {
				return err
			}
		}
	}
	fmt.Fprintf(stderr, "%.0f s in all\n", time.Since(began).Seconds())
	return nil
}
