package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/spf13/cobra"
)

const exitHelp = `Exit statuses:
  0    it worked
  1    it failed
  2    the call was wrong: a flag, an argument, a policy
  3    Redis cannot be reached, or refuses the login
  4    some of several customers failed; the others worked
  130  it was interrupted`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitSomeFailed  = 4
	exitInterrupted = 130
)

// statusError is an error that knows its exit status.
type statusError struct {
	status int
	error
}

func (e statusError) Unwrap() error { return e.error }

func usageError(format string, args ...any) error {
	return statusError{exitUsage, fmt.Errorf(format, args...)}
}

// wrongCall makes a usage error of an error without an exit status.
func wrongCall(err error) error {
	var known statusError
	if err == nil || errors.As(err, &known) {
		return err
	}
	return statusError{exitUsage, err}
}

func exitStatus(err error) int {
	var known statusError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &known):
		return known.status
	case errors.Is(err, priority.ErrInvalid):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	}
	return exitFailed
}

// failures is the error of a command that went through several customers and
// has told each failure already.
func failures(ctx context.Context, failed, of int) error {
	switch {
	case ctx.Err() != nil:
		return statusError{exitInterrupted, errors.New("interrupted")}
	case failed == 0:
		return nil
	case failed < of:
		return statusError{exitSomeFailed, fmt.Errorf("%d of %d customers failed", failed, of)}
	case of == 1:
		return statusError{exitFailed, nil}
	}
	return fmt.Errorf("all %d customers failed", of)
}

// tellUsage makes usage errors of what cobra says about flags and arguments.
func tellUsage(command *cobra.Command) {
	if !command.Runnable() && command.HasSubCommands() {
		command.Args = unknownCommand
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return statusError{exitUsage, err} })
	if check := command.Args; check != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			return wrongCall(cmp.Or(check(command, args), command.ValidateFlagGroups()))
		}
	}
	for _, child := range command.Commands() {
		tellUsage(child)
	}
}

// unknownCommand is what a command that only has others is called with.
func unknownCommand(command *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see " + command.CommandPath() + " -help"
	command.SuggestionsMinimumDistance = 2
	if near := command.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("unknown command %.40q: %s", args[0], hint)
}

// unknownTopic is what the help is asked about.
func unknownTopic(help *cobra.Command, args []string) error {
	command, rest, err := help.Root().Find(args)
	if err != nil {
		return err
	}
	return unknownCommand(command, rest)
}

// told reports that the user knows of an error already.
func told(err error) bool {
	var known statusError
	return errors.As(err, &known) && known.error == nil
}
