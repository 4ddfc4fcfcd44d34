package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const exitHelp = `Exit statuses:
  0    it worked
  1    it failed
  2    the call was wrong: a flag, an argument, a policy
  3    Redis cannot be reached, or refuses the login
  4    some of several customers failed; the others worked
  5    it may have been done, or not: look (get, log) before you do it again
  130  it was interrupted`

const (
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
	exitSomeFailed  = 4
	exitUnknown     = 5
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

// wrongCall turns an error without an exit status into a usage error.
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

// failures is the error of a command that went through several customers and has
// already printed each failure.
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

// tellUsage turns cobra's errors about flags and arguments into usage errors.
func tellUsage(command *cobra.Command) {
	if !command.Runnable() && command.HasSubCommands() {
		command.Args = unknownCommand
		command.RunE = func(command *cobra.Command, _ []string) error { return command.Help() }
	}
	command.SetFlagErrorFunc(wrongFlag)
	if check := command.Args; check != nil {
		command.Args = func(command *cobra.Command, args []string) error {
			return wrongCall(cmp.Or(check(command, args), command.ValidateFlagGroups()))
		}
	}
	for _, child := range command.Commands() {
		tellUsage(child)
	}
}

// wrongFlag says which flag is wrong, and what it takes.
func wrongFlag(command *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var missing *pflag.ValueRequiredError
	var unknown *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return usageError("-%s %.60q %s", nameOf(value.GetFlag()), value.GetValue(), notTaken(value))
	case errors.As(err, &missing):
		return usageError("-%s needs a value: see %s -help", nameOf(missing.GetFlag()), command.CommandPath())
	case errors.As(err, &unknown):
		return usageError("unknown flag -%s: see %s -help", cmp.Or(unknown.GetSpecifiedShortnames(), unknown.GetSpecifiedName()), command.CommandPath())
	}
	return statusError{exitUsage, err}
}

// nameOf returns the name of a flag in the help.
func nameOf(flag *pflag.Flag) string { return cmp.Or(flag.Shorthand, flag.Name) }

// notTaken says why a flag does not take a value.
func notTaken(value *pflag.InvalidValueError) string {
	switch value.GetFlag().Value.Type() {
	case "int", "int64", "float64":
		if errors.Is(value, strconv.ErrRange) {
			return "is too large"
		}
		if value.GetFlag().Value.Type() == "float64" {
			return "is not a number"
		}
		return "is not a whole number"
	case "intSlice":
		return "is not a list of whole numbers such as 8,9"
	case "duration":
		return "is not a time such as 90s, 15m or 2h"
	case "bool":
		return "is not true or false"
	}
	return "is wrong: " + errors.Unwrap(value).Error()
}

// unknownCommand is the error of a command that only has subcommands.
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

// namedArguments checks that there are exactly the arguments that the words name.
func namedArguments(what ...string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) == len(what) {
			return nil
		}
		return fmt.Errorf("%s takes %s, not %s: see %s -help", command.Name(), strings.Join(what, " and "), insight.Plural(int64(len(args)), "argument"), command.CommandPath())
	}
}

// unknownTopic checks the arguments of the command help.
func unknownTopic(help *cobra.Command, args []string) error {
	command, rest, err := help.Root().Find(args)
	if err != nil {
		return err
	}
	return unknownCommand(command, rest)
}

// told reports that the user has already seen an error.
func told(err error) bool {
	var known statusError
	return errors.As(err, &known) && known.error == nil
}
