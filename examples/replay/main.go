// Replay gives levels to the documents of a recorded trace, in the trace's own
// time, and shows how they spread. With -lua and -redis it also checks that the
// script decides every document as the model in memory does.
//
//	go run ./examples/replay [flags] [trace.csv[.gz] | -]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/trace"
)

const usage = `usage: replay [flags] [trace.csv[.gz] | -]

The trace is CSV, plain or gzipped, sorted by time, with or without the header
submitted_ms,customer,service_ms; the third field may be missing. Without a
file, or with -, it is read from the standard input.

`

// The program ends with one of these.
const (
	succeeded = 0
	failed    = 1 // a bad trace, no Redis, or decisions that differ
	misused   = 2
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("replay", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	policy := priority.DefaultPolicy()
	flags.Func("reset", "start a count afresh 1500 s after `last-update` (default) or last-reset",
		resetMode(&policy.ResetMode))
	asJSON := flags.Bool("json", false, "print one JSON object")
	withLua := flags.Bool("lua", false, "check the Lua script too, in miniredis, whose clock follows the trace")
	address := flags.String("redis", "", "check a Redis server at this `address` too")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return succeeded
	} else if err != nil {
		return misused
	}
	if flags.NArg() > 1 {
		fmt.Fprintf(stderr, "replay: one trace at a time, after the flags; not %q\n", flags.Args())
		return misused
	}

	result, err := replay(flags.Arg(0), stdin, policy, *withLua, *address, newProgress(stderr))
	if err != nil {
		fmt.Fprintln(stderr, "replay:", err)
		return failed
	}
	write := result.writeText
	if *asJSON {
		write = result.writeJSON
	}
	if err := write(stdout); err != nil {
		fmt.Fprintln(stderr, "replay: write the report:", err)
		return failed
	}
	if !result.Lua.agrees() || !result.Redis.agrees() {
		return failed
	}
	return succeeded
}

// replay sends the whole trace through memory and, if asked to, through the
// others, and compares.
func replay(name string, stdin io.Reader, policy priority.Policy, withLua bool, address string, bar *progress) (*report, error) {
	documents, err := read(name, stdin)
	if err != nil {
		return nil, err
	}
	defer bar.clear()
	decisions, err := throughMemory(documents, policy, bar)
	if err != nil {
		return nil, fmt.Errorf("in memory: %w", err)
	}
	result := newReport(documents, decisions, policy)
	if withLua {
		others, err := throughLua(documents, policy, bar)
		if err != nil {
			return nil, fmt.Errorf("-lua: %w", err)
		}
		result.Lua = compare(documents, decisions, others)
	}
	if address != "" {
		// An interrupt ends the replay in order, so that no key is left behind.
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		defer stop()
		others, err := throughRedis(ctx, documents, policy, address, bar)
		if err != nil {
			return nil, fmt.Errorf("-redis %s: %w", address, err)
		}
		result.Redis = compare(documents, decisions, others)
	}
	return result, nil
}

// read returns all documents of a trace.
func read(name string, stdin io.Reader) (documents []trace.Document, err error) {
	for d, err := range trace.Open(name, stdin) {
		if err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
	return documents, nil
}

// resetMode reads the value of -reset.
func resetMode(mode *priority.ResetMode) func(string) error {
	return func(value string) error {
		switch value {
		case "last-update":
			*mode = priority.SinceLastUpdate
		case "last-reset":
			*mode = priority.SinceLastReset
		default:
			return errors.New("it is last-update or last-reset")
		}
		return nil
	}
}
