package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/internal/customer"
)

// fromFlag names a file of customers.
type fromFlag struct{ file string }

// register adds the flag, and refuses a call that names no customer, or some in both ways.
func (f *fromFlag) register(command *cobra.Command) {
	command.Flags().StringVar(&f.file, "from", "", "take the customers from a file of JSON lines, as -json prints them; -: standard input")
	command.Args = func(_ *cobra.Command, args []string) error {
		switch {
		case f.file == "" && len(args) == 0:
			return errors.New("name a customer, or a file of them by -from")
		case f.file != "" && len(args) > 0:
			return errors.New("name customers as arguments or by -from, not both")
		}
		return nil
	}
}

// customers returns the customers of the arguments, or of -from.
func (f *fromFlag) customers(c *call, args []string) ([]string, error) {
	if f.file == "" {
		return args, nil
	}
	text, source, err := readInput(f.file, c.command.InOrStdin())
	if err != nil {
		return nil, err
	}
	names, err := parseCustomers(text)
	if err != nil {
		return nil, usageError("%s: %w", source, err)
	}
	if len(names) == 0 { // as of a list with nothing to list
		c.note("%s: there is no customer in it", source)
	}
	return names, nil
}

// parseCustomers reads JSON objects that name customers.
func parseCustomers(text []byte) (names []string, err error) {
	if !utf8.Valid(text) { // the decoder would replace some bytes, and so name another customer
		return nil, errors.New("it is not UTF-8: such a customer is named by customer_base64")
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	for place := 1; ; place++ {
		var object struct {
			customer.Name
			Error   string          `json:"error"`
			Kind    string          `json:"kind"`
			Busiest []customer.Name `json:"busiest"` // what top prints
		}
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		found := object.Busiest
		if found == nil {
			found = []customer.Name{object.Name}
		}
		if err == nil && object.Error+object.Kind != "" {
			err = errors.New("a failure, or a line of the log, names no customer")
		}
		for _, name := range found {
			if err == nil {
				err = name.Check()
			}
			names = append(names, name.Exact())
		}
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", place, err)
		}
	}
}

// readInput reads a file, or standard input for "-". source is its name in messages.
func readInput(name string, stdin io.Reader) (text []byte, source string, err error) {
	if name == "-" {
		text, err = io.ReadAll(stdin)
		return text, "standard input", err
	}
	if text, err = os.ReadFile(name); err != nil {
		return nil, "", statusError{exitUsage, err}
	}
	return text, filepath.Base(name), nil
}

// readPolicies reads the policy, and the tiers, of a file, or the module's for "default".
func readPolicies(name string, stdin io.Reader) (policies priority.Policies, source string, err error) {
	if name == "default" {
		return policies.WithDefaults(), "the module's default policy", nil
	}
	text, source, err := readInput(name, stdin)
	if err != nil {
		return policies, "", err
	}
	if policies, err = insight.ParsePolicies(text); err != nil {
		return policies, "", usageError("%s: not a policy: %w", source, err)
	}
	return policies, source, nil
}

// eachCustomer does something for each customer and prints the result, or the failure on
// stderr. With -json, failures are printed as results are. It stops if no one can be asked any more.
func (c *call) eachCustomer(names []string, do func(name string) (any, error)) error {
	failed := 0
	for i, name := range names {
		if c.ctx().Err() != nil {
			return statusError{exitInterrupted, errors.New("interrupted")}
		}
		result, failure := do(name)
		if err := c.printResult(i > 0, name, result, failure); err != nil {
			return err
		}
		if failure == nil {
			continue
		}
		failed++
		status := exitStatus(failure)
		over := status == exitUnreachable && len(c.masters) == 1 || status == exitUnknown
		if left := int64(len(names) - i - 1); over && left > 0 {
			c.note("the %s after it: not tried", insight.Plural(left, "customer"))
		}
		if over || len(names) == 1 {
			return statusError{status, errPrinted}
		}
	}
	if failed == 0 {
		return nil
	}
	return statusError{exitSomeFailed, fmt.Errorf("%d of %d customers failed", failed, len(names))}
}

// printResult prints what became of a customer. A text of several lines has an empty line
// before it, unless it is the first.
func (c *call) printResult(follows bool, name string, result any, failed error) error {
	if failed != nil && c.asJSON {
		result = failure{customer.NameOf(name), insight.OneLine(c.Hidden(failed)), exitStatus(failed) == exitUnknown}
	} else if failed != nil {
		c.note("%s", insight.OneLine(c.Hidden(failed)))
		return nil
	}
	if c.asJSON {
		return writeJSON(c.out, result)
	}
	text := fmt.Sprint(result)
	if follows && strings.Contains(text, "\n") {
		text = "\n" + text
	}
	_, err := fmt.Fprintln(c.out, text)
	return err
}

// failure is the JSON for a customer for whom the command failed.
type failure struct {
	customer.Name
	Error   string `json:"error"`
	Unknown bool   `json:"outcome_unknown,omitempty"` // whether it may have been done
}
