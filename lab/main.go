// Command lab measures the module: it simulates who waits how long, and runs the module
// beside its peers.
//
//	go run ./lab matrix -scenario steady-flood
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
)

// commands are what lab does, by name.
var commands = []command{
	{"matrix", "[trace | -]", "who waits how long, by every way to schedule", newMatrix},
	{"bench", "", "what a decision costs, beside other ways to decide", newBench},
	{"pictures", "", "draws the pictures of the documents", newPictures},
}

// command is one of the things that lab does.
type command struct {
	name, arguments, summary string
	// prepare registers the flags. It returns what runs with them, and the rest of the help.
	prepare func(flags *flag.FlagSet) (run action, help string)
}

// action runs a command with what is left of its arguments.
type action func(ctx context.Context, with terminal, args []string) error

// terminal is what a program reads and writes.
type terminal struct {
	stdin          io.Reader
	stdout, stderr io.Writer
}

// errUsage is wrapped by the errors of wrong calls.
var errUsage = errors.New("see -help")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, terminal{os.Stdin, os.Stdout, os.Stderr}, os.Args[1:]))
}

// run returns the exit status: 0, 1 for a failure, 2 for a wrong call.
func run(ctx context.Context, with terminal, args []string) int {
	if len(args) == 0 || slices.Contains([]string{"help", "-h", "-help", "--help"}, args[0]) {
		usage(with.stdout)
		return 0
	}
	at := slices.IndexFunc(commands, func(c command) bool { return c.name == args[0] })
	if at < 0 {
		fmt.Fprintf(with.stderr, "lab: unknown command %q: see go run ./lab help\n", args[0])
		return 2
	}
	err := commands[at].run(ctx, with, args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	case errors.Is(err, errUsage):
		fmt.Fprintf(with.stderr, "lab %s: %v\n", args[0], err)
		return 2
	}
	fmt.Fprintf(with.stderr, "lab %s: %v\n", args[0], err)
	return 1
}

func usage(to io.Writer) {
	fmt.Fprint(to, "Lab measures the priority module.\n\n")
	for _, c := range commands {
		fmt.Fprintf(to, "  go run ./lab %-9s %s\n", c.name, c.summary)
	}
	fmt.Fprint(to, "\ngo run ./lab COMMAND -help explains a command and its flags.\n")
}

func (c command) run(ctx context.Context, with terminal, args []string) error {
	flags := flag.NewFlagSet(c.name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	run, help := c.prepare(flags)
	rest, err := parse(flags, args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(with.stdout, "usage: go run ./lab %s %s\n\n%s\n", c.name, strings.TrimSpace(c.arguments+" [flags]"), help)
		flags.SetOutput(with.stdout)
		flags.PrintDefaults()
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", err, errUsage)
	}
	return run(ctx, with, rest)
}

// parse takes flags before, between and after other arguments.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, flags.Arg(0)), flags.Args()[1:]
	}
}

// wrongCall is the error of a call that cannot be right.
func wrongCall(err error) error { return fmt.Errorf("%w: %w", err, errUsage) }
