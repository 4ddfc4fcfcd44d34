package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const fromHelp = `Customers are any bytes: with -from the JSON that commands print names them,
whatever they consist of. Put a customer whose name begins with - behind --.`

// fromFlag names a file of customers.
type fromFlag struct{ file string }

func (f *fromFlag) register(command *cobra.Command) {
	command.Flags().StringVar(&f.file, "from", "", "take the customers from this file of JSON objects, one a line, as any command prints them; -: from standard input")
}

// named is a customer of a line, and what the line says about them.
type named struct {
	insight.Name
	Earliest priority.Level `json:"earliest"`
	Latest   priority.Level `json:"latest"`
	Until    time.Time      `json:"until"`
	Why      string         `json:"why"`

	// get prints the override inside; a command that ended one prints what was
	// before.
	Override *named `json:"override"`
	Replaced *named `json:"replaced"`

	logged bool // the line is the log's
}

// object is what -from reads: it names a customer or several, or is an entry of the
// log.
type object struct {
	named
	Error   string                     `json:"error"`
	Busiest []named                    `json:"busiest"` // of top
	Live    struct{ Examples []named } `json:"live"`    // of policy compare
	Version int64                      `json:"version"`
	Kind    string                     `json:"kind"`
	Says    string                     `json:"says"`
	New     json.RawMessage            `json:"new"`
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
func (f *fromFlag) customers(command *cobra.Command, args []string) ([]named, error) {
	if f.file == "" {
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
	all, err := readCustomers(held)
	if err != nil {
		return nil, usageError("%s: %w", source, err)
	}
	return all, nil
}

// readCustomers reads JSON objects that name customers.
func readCustomers(held []byte) ([]named, error) {
	at := 0
	for text := range bytes.Lines(held) {
		// The decoder would replace invalid UTF-8, and so name another customer.
		if at++; !utf8.Valid(text) {
			return nil, fmt.Errorf("line %d is not UTF-8: such a customer is named by customer_base64", at)
		}
	}
	var all []named
	log := customersOfLog{places: make(map[string]int), versions: make(map[string]int64)}
	decoder := json.NewDecoder(bytes.NewReader(held))
	for place := 1; ; place++ {
		var read object
		err := decoder.Decode(&read)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			all, err = log.with(all, read)
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

// customersOfLog joins all lines of the log about a customer in one.
type customersOfLog struct {
	places   map[string]int   // of the customers
	versions map[string]int64 // of the last changes of their overrides
}

// with adds the customers of a line.
func (l *customersOfLog) with(all []named, read object) ([]named, error) {
	several := append(read.Busiest, read.Live.Examples...)
	logged := read.Kind != "" && read.Says != ""
	switch {
	case read.Error != "":
		return nil, fmt.Errorf("it is a failure: %s", insight.Quoted(read.Error))
	case read.Name != (insight.Name{}):
		several = []named{read.named}
	case logged:
		return all, nil // the entry changes the policy
	case read.Busiest == nil && read.Live.Examples == nil:
		return nil, errors.New("it names no customer")
	}
	for _, one := range several {
		if err := one.Check(); err != nil {
			return nil, err
		}
		if one.Exact() == "" {
			return nil, errors.New("it names no customer")
		}
		if !logged {
			all = append(all, one.unfolded())
		}
	}
	if logged {
		return l.withLogged(all, read)
	}
	return all, nil
}

// withLogged adds a line of the log, in which a customer's last change decides.
func (l *customersOfLog) withLogged(all []named, read object) ([]named, error) {
	customer := read.Exact()
	place, ok := l.places[customer]
	if !ok {
		place = len(all)
		l.places[customer] = place
		all = append(all, named{Name: read.Name, logged: true})
	}
	if read.Kind == "override" && read.Version > l.versions[customer] {
		var override priority.Override // zero if the override was ended
		if read.New != nil {
			if err := json.Unmarshal(read.New, &override); err != nil {
				return nil, err
			}
		}
		l.versions[customer] = read.Version
		one := &all[place]
		one.Earliest, one.Latest, one.Until, one.Why = override.Earliest, override.Latest, read.Until, read.Why
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
	}
	return n
}

// overridden leaves out the log's customers who no longer have an override.
func overridden(all []named) ([]named, error) {
	left := slices.DeleteFunc(all, func(n named) bool { return n.logged && n.Earliest+n.Latest == 0 })
	if len(left) == 0 {
		return nil, usageError("by its last change, no customer of the log has an override any more")
	}
	return left, nil
}

func names(all []named) []string {
	customers := make([]string, len(all))
	for i, line := range all {
		customers[i] = line.Exact()
	}
	return customers
}
