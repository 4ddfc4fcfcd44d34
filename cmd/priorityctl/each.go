package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

// eachCustomer does something for each customer and prints the result, or the
// failure on stderr. With -json, failures are printed as results are. It stops if Redis
// cannot be reached.
func eachCustomer(command *cobra.Command, c *connection, customers []string, asJSON bool, do func(ctx context.Context, customer string) (any, error)) error {
	ctx, out := command.Context(), command.OutOrStdout()
	failed := 0
	for i, customer := range customers {
		if ctx.Err() != nil {
			break
		}
		result, err := do(ctx, customer)
		status := 0
		if err != nil {
			failed++
			err = c.orLost(command, err)
			status = exitStatus(err)
			err = c.Hidden(err)
		}
		switch {
		case err != nil && asJSON:
			if err := writeJSON(out, failure{insight.NameOf(customer), insight.OneLine(err), status == exitUnknown}); err != nil {
				return err
			}
		case err != nil:
			fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s\n", insight.OneLine(err))
		case asJSON:
			if err := writeJSON(out, result); err != nil {
				return err
			}
		default:
			if i > 0 && strings.Contains(fmt.Sprint(result), "\n") {
				fmt.Fprintln(out)
			}
			if _, err := fmt.Fprintln(out, result); err != nil {
				return err
			}
		}
		if left := len(customers) - i - 1; status == exitUnreachable || status == exitUnknown {
			if left > 0 {
				fmt.Fprintf(command.ErrOrStderr(), "priorityctl: the %s behind it: not tried\n", insight.Plural(int64(left), "customer"))
			}
			return statusError{status, nil}
		}
		if status == exitUsage && len(customers) == 1 {
			return statusError{exitUsage, nil}
		}
	}
	return failures(ctx, failed, len(customers))
}

// failure is the JSON for a customer for whom the command failed.
type failure struct {
	insight.Name
	Error   string `json:"error"`
	Unknown bool   `json:"outcome_unknown,omitempty"` // it may have been done
}

// orLost says that the connection to Redis was lost, and of a change that it may have been
// made.
func (c *connection) orLost(command *cobra.Command, err error) error {
	var known statusError
	switch err = byFlag(err); {
	case errors.As(err, &known):
		return err
	case halfway(err):
		return c.again(err)
	case !insight.Unreachable(err):
		return err
	case errors.Is(err, priority.ErrOutcomeUnknown) && changes(command):
		return statusError{exitUnknown, fmt.Errorf("%w: it may have been done, or not: look before you do it again", err)}
	}
	return c.broken(err)
}

// byFlag names the flag in place of the field of a [control.Change] that is wrong.
func byFlag(err error) error {
	for field, flag := range map[string]string{"Why ": "-why ", "By ": "-by "} {
		if _, what, ok := strings.Cut(fmt.Sprint(err), priority.ErrInvalid.Error()+" option: "+field); ok && errors.Is(err, priority.ErrInvalid) {
			return usageError("%s%s", flag, what)
		}
	}
	return err
}

// halfway reports whether a change was written down, and not all of it done.
func halfway(err error) bool {
	return errors.Is(err, control.ErrNotInForce) || errors.Is(err, control.ErrForgottenInPart)
}

// changes reports whether a command changes what operators can see in the log.
func changes(command *cobra.Command) bool { return command.Flags().Lookup("why") != nil }
