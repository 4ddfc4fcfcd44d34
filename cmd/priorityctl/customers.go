package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/spf13/cobra"
)

// fromFlag names a file of customers.
type fromFlag struct{ file string }

func (f *fromFlag) register(command *cobra.Command) {
	command.Flags().StringVar(&f.file, "from", "", "take the customers from a file of JSON lines, as -json prints them; -: standard input")
}

// check refuses a call that names no customer, or some in both ways.
func (f *fromFlag) check(_ *cobra.Command, args []string) error {
	switch {
	case f.file == "" && len(args) == 0:
		return errors.New("name a customer, or a file of them by -from")
	case f.file != "" && len(args) > 0:
		return errors.New("name customers as arguments or by -from, not both")
	}
	return nil
}

// customers returns the customers of the arguments, or of -from.
func (f *fromFlag) customers(command *cobra.Command, args []string) ([]string, error) {
	if f.file == "" {
		return args, nil
	}
	held, source, err := readInput(f.file, command.InOrStdin())
	if err != nil {
		return nil, err
	}
	all, err := readCustomers(held)
	if err != nil {
		return nil, usageError("%s: %w", source, err)
	}
	return all, nil
}

// readCustomers reads JSON objects that name customers.
func readCustomers(held []byte) (all []string, err error) {
	if !utf8.Valid(held) { // the decoder would replace it, and so name another customer
		return nil, errors.New("it is not UTF-8: such a customer is named by customer_base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(held))
	for place := 1; ; place++ {
		var read struct {
			insight.Name
			Error   string         `json:"error"`
			Kind    string         `json:"kind"`
			Busiest []insight.Name `json:"busiest"` // of top
		}
		err := decoder.Decode(&read)
		if errors.Is(err, io.EOF) {
			break
		}
		several := read.Busiest
		if read.Name != (insight.Name{}) {
			several = []insight.Name{read.Name}
		}
		switch {
		case err != nil:
		case read.Error != "" || read.Kind != "":
			err = errors.New("a failure, or a line of the log, names no customer")
		case read.Busiest == nil && several == nil:
			err = errors.New("it names no customer")
		}
		for _, one := range several {
			if err == nil {
				err = one.Check()
			}
			all = append(all, one.Exact())
		}
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", place, err)
		}
	}
	if len(all) == 0 {
		return nil, errors.New("there is no customer in it")
	}
	return all, nil
}

// readInput reads a file, or standard input for "-". source is its name in messages.
func readInput(name string, stdin io.Reader) (held []byte, source string, err error) {
	if name == "-" {
		held, err = io.ReadAll(stdin)
		return held, "standard input", err
	}
	if held, err = os.ReadFile(name); err != nil {
		return nil, "", statusError{exitUsage, err}
	}
	return held, filepath.Base(name), nil
}

// readRules reads the policy, and the tiers, of a file, or the module's for "default".
func readRules(name string, stdin io.Reader) (rules control.Rules, source string, err error) {
	if name == "default" {
		rules, err = insight.ParseRules([]byte("{}"))
		return rules, "the module's default policy", err
	}
	held, source, err := readInput(name, stdin)
	if err != nil {
		return rules, "", err
	}
	if rules, err = insight.ParseRules(held); err != nil {
		return rules, "", usageError("%s: not a policy: %w", source, err)
	}
	return rules, source, nil
}

// eachCustomer does something for each customer and prints the result, or the failure on
// stderr. With -json, failures are printed as results are. It stops if Redis cannot be reached.
func eachCustomer(command *cobra.Command, c *connection, customers []string, asJSON bool, do func(ctx context.Context, customer string) (any, error)) error {
	ctx, out := command.Context(), command.OutOrStdout()
	failed := 0
	for i, customer := range customers {
		if ctx.Err() != nil {
			return statusError{exitInterrupted, errors.New("interrupted")}
		}
		result, err := do(ctx, customer)
		status := exitStatus(err)
		if err != nil {
			failed++
			err = c.Hidden(err)
			if asJSON {
				result = failure{insight.NameOf(customer), insight.OneLine(err), status == exitUnknown}
			} else {
				fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s\n", insight.OneLine(err))
			}
		}
		switch {
		case asJSON:
			err = writeJSON(out, result)
		case err == nil:
			text := fmt.Sprint(result)
			if i > 0 && strings.Contains(text, "\n") {
				fmt.Fprintln(out)
			}
			_, err = fmt.Fprintln(out, text)
		default:
			err = nil
		}
		if err != nil { // nothing can be printed
			return err
		}
		if status == exitUnreachable || status == exitUnknown {
			if left := len(customers) - i - 1; left > 0 {
				fmt.Fprintf(command.ErrOrStderr(), "priorityctl: the %s after it: not tried\n", insight.Plural(int64(left), "customer"))
			}
			return statusError{status, errPrinted}
		}
		if len(customers) == 1 && status != 0 {
			return statusError{status, errPrinted}
		}
	}
	switch {
	case failed == 0:
		return nil
	case failed < len(customers):
		return statusError{exitSomeFailed, fmt.Errorf("%d of %d customers failed", failed, len(customers))}
	}
	return fmt.Errorf("all %d customers failed", failed)
}

// failure is the JSON for a customer for whom the command failed.
type failure struct {
	insight.Name
	Error   string `json:"error"`
	Unknown bool   `json:"outcome_unknown,omitempty"` // it may have been done
}
