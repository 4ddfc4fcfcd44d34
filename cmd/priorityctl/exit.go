package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// The exit statuses.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitSomeFailed  = 4
	exitUnknown     = 5
	exitInterrupted = 130
)

// errPrinted is an error that the user has seen already.
var errPrinted = errors.New("printed")

// statusError is an error that knows its exit status.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

func usageError(format string, args ...any) error {
	return statusError{exitUsage, fmt.Errorf(format, args...)}
}

func exitStatus(err error) int {
	marked, ok := errors.AsType[statusError](err)
	_, missing := errors.AsType[insight.Missing](err)
	switch {
	case err == nil:
		return 0
	case ok:
		return marked.status
	case errors.Is(err, priority.ErrInvalid):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.Is(err, priority.ErrOutcomeUnknown):
		return exitUnknown
	case missing:
		return exitSomeFailed
	case insight.Unreachable(err):
		return exitUnreachable
	}
	return exitFailed
}

// usageErrors turns cobra's errors about flags and arguments into usage errors.
func usageErrors(command *cobra.Command) {
	command.SetFlagErrorFunc(func(command *cobra.Command, err error) error {
		return usageError("%s: see %s -help", strings.ReplaceAll(err.Error(), "--", "-"), command.CommandPath())
	})
	check := command.Args
	command.Args = func(command *cobra.Command, args []string) error {
		var err error
		switch {
		case command.Flags().Changed("help-connection"): // it needs no argument
		case check != nil:
			err = check(command, args)
		case command.HasSubCommands() && len(args) > 0:
			err = fmt.Errorf("unknown command %.40q", args[0])
			command.SuggestionsMinimumDistance = 2
			near := command.SuggestionsFor(args[0])
			for _, group := range command.Commands() {
				for _, child := range group.Commands() {
					if child.Name() == args[0] {
						near = []string{group.Name() + " " + child.Name()} // such as override set
					}
				}
			}
			if len(near) > 0 {
				err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
			}
		case len(args) > 0:
			err = fmt.Errorf("%s takes no argument, not %.40q", command.Name(), args[0])
		}
		if err != nil {
			return usageError("%w: see %s -help", err, command.CommandPath())
		}
		return nil
	}
	for _, child := range command.Commands() {
		usageErrors(child)
	}
}
