// Command release makes a version of everything that is published: the Go modules,
// the Python package and the npm package, in lock-step. From the root of the repository:
//
//	go run ./release check
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const usage = `Usage: go run ./release COMMAND, from the root of the repository

check            says whether the tree can be released: go.mod files, versions,
                 licences, changes of the interface, known vulnerabilities
tidy             go mod tidy -diff of every module, against the tree's own modules
rehearse         releases a copy of the tree, and does with it what users do
start [PAGE]     does what the start page says, from empty folders
                 (default: docs/start.md)
prepare VERSION  writes the version into the tree, to be committed
tag              tags the commit, which prepare has made; pushes nothing
`

// wrongCall is an error of who calls, not of the tree.
type wrongCall struct{ error }

func main() {
	ends := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup has it
		ends = append(ends, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	err := forgetRepository(ctx)
	if err == nil {
		err = run(ctx, os.Args[1:])
	}
	switch {
	case err == nil:
	case errors.As(err, new(wrongCall)):
		fmt.Fprintf(os.Stderr, "release: %v\n\n%s", err, usage)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		return wrongCall{errors.New("which command?")}
	}
	command, arguments := arguments[0], arguments[1:]
	if command == "help" || command == "-h" || command == "-help" || command == "--help" {
		fmt.Print(usage)
		return nil
	}
	commands := map[string]func(context.Context, tree, []string) error{
		"check":    none(check),
		"tidy":     none(tidy),
		"rehearse": none(rehearse),
		"tag":      none(tag),
		"start": func(ctx context.Context, tree tree, arguments []string) error {
			if len(arguments) > 1 {
				return wrongCall{errors.New("start takes one page")}
			}
			page := filepath.Join(tree.dir, startPage)
			if len(arguments) == 1 {
				page = arguments[0]
			}
			return start(ctx, tree, page)
		},
		"prepare": func(ctx context.Context, tree tree, arguments []string) error {
			if len(arguments) != 1 {
				return wrongCall{errors.New("prepare takes one version, such as v0.2.0")}
			}
			return prepare(ctx, tree, arguments[0], time.Now())
		},
	}
	do, ok := commands[command]
	if !ok {
		return wrongCall{fmt.Errorf("there is no command %q", command)}
	}
	tree, err := open(ctx, ".")
	if err != nil {
		return err
	}
	return do(ctx, tree, arguments)
}

// none is for a command without arguments.
func none(do func(context.Context, tree) error) func(context.Context, tree, []string) error {
	return func(ctx context.Context, tree tree, arguments []string) error {
		if len(arguments) > 0 {
			return wrongCall{fmt.Errorf("unexpected argument %q", arguments[0])}
		}
		return do(ctx, tree)
	}
}
