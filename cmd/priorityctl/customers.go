package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/page/insight"
	"github.com/spf13/cobra"
)

// fromFlag names a file of customers.
type fromFlag struct{ file string }

func (f *fromFlag) register(command *cobra.Command) {
	command.Flags().StringVar(&f.file, "from", "", "take the customers from this file of JSON objects, one a line, as any command prints them; -: from standard input")
}

// named is a customer of a line, and what the line says of it.
type named struct {
	insight.Name
	Earliest priority.Level  `json:"earliest"`
	Latest   priority.Level  `json:"latest"`
	Until    time.Time       `json:"until"`
	Why      string          `json:"why"`
	Tier     json.RawMessage `json:"tier"` // a name, or from get an object

	// From get the override is inside, from log it is what is new, and from what has
	// ended one, what was before.
	Override *named          `json:"override"`
	Replaced *named          `json:"replaced"`
	Kind     string          `json:"kind"`
	New      json.RawMessage `json:"new"`
	Error    string          `json:"error"`
}

// customers returns those of the arguments, or of -from.
func (f *fromFlag) customers(command *cobra.Command, args []string) ([]named, error) {
	switch {
	case f.file == "" && len(args) == 0:
		return nil, usageError("name a customer, or a file of them by -from")
	case f.file != "" && len(args) > 0:
		return nil, usageError("name customers as arguments or by -from, not both")
	case f.file == "":
		all := make([]named, len(args))
		for i, customer := range args {
			all[i].Name = insight.NameOf(customer)
		}
		return all, nil
	}
	held, source, err := readInput(f.file, command.InOrStdin())
	if err != nil {
		return nil, err
	}
	var all []named
	decoder := json.NewDecoder(bytes.NewReader(held))
	for {
		var line named
		err := decoder.Decode(&line)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, usageError("%s: object %d: %w", source, len(all)+1, err)
		}
		if line.Error != "" {
			return nil, usageError("%s: object %d is a failure: %s", source, len(all)+1, insight.Quoted(line.Error))
		}
		if line.Exact() == "" {
			return nil, usageError("%s: object %d names no customer", source, len(all)+1)
		}
		all = append(all, line.unfolded())
	}
	if len(all) == 0 {
		return nil, usageError("%s: there is no customer in it", source)
	}
	return all, nil
}

// unfolded returns a line as a list prints it.
func (n named) unfolded() named {
	inside := n.Override
	if inside == nil {
		inside = n.Replaced
	}
	if inside != nil {
		n.Earliest, n.Latest, n.Until, n.Why = inside.Earliest, inside.Latest, inside.Until, inside.Why
		if _, ok := n.tier(); !ok {
			n.Tier = inside.Tier
		}
	}
	var override control.Override
	if n.Kind == "override" && json.Unmarshal(n.New, &override) == nil {
		n.Earliest, n.Latest = override.Earliest, override.Latest
	}
	if n.Kind == "member" {
		n.Tier = n.New
	}
	return n
}

// tier returns the tier of a line; ok is false where the line has none.
func (n named) tier() (name string, ok bool) {
	var object struct{ Tier string }
	switch {
	case len(n.Tier) == 0 || string(n.Tier) == "null":
		return "", false
	case json.Unmarshal(n.Tier, &name) == nil:
		return name, true
	case json.Unmarshal(n.Tier, &object) == nil:
		return object.Tier, true
	}
	return "", false
}

func names(all []named) []string {
	customers := make([]string, len(all))
	for i, line := range all {
		customers[i] = line.Exact()
	}
	return customers
}
