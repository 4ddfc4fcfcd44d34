package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const topLong = `Top shows which levels documents got in the last minute, how long they took from
Submit to Done, what waits, and the customers with the most documents: live on a
terminal, until q; once anywhere else. ? shows the keys and the columns. It adds up
what workers report that use fleet.Join, or its equivalent in another language.

  priorityctl top
  priorityctl top -once`

func newTop() *cobra.Command {
	var connect connectionFlags
	var interval time.Duration
	var once, asJSON bool
	var o order
	command := &cobra.Command{Use: "top", Long: topLong}
	command.RunE = connected(&connect, func(*cobra.Command) error {
		if interval < 100*time.Millisecond {
			return usageError("-interval %v is less than 100ms", interval)
		}
		return o.check()
	}, func(command *cobra.Command, c *connection, _ []string) error {
		if !once && !asJSON && isTerminal(command.OutOrStdout()) {
			return live(command, c.Inspector, interval, o)
		}
		c.warn(command)
		top, err := c.Top(command.Context())
		if err != nil {
			return err
		}
		now := look{snapshot: c.Snapshot, top: top}
		top.Busiest = o.of(top.Busiest)
		if asJSON {
			return writeJSON(command.OutOrStdout(), struct {
				At       time.Time        `json:"at"`
				WindowMS int64            `json:"window_ms"`
				Workers  int              `json:"workers"`
				Gone     int              `json:"gone"`
				Degraded int              `json:"degraded"`
				Full     bool             `json:"redis_full"`
				Errors   map[string]int64 `json:"errors"`
				*insight.Top
			}{c.At, c.Totals.Window.Milliseconds(), c.Totals.Reports, c.Totals.Gone, c.Totals.Degraded, c.Full(), c.Totals.Errors, top})
		}
		_, err = io.WriteString(command.OutOrStdout(), drawing{look: now, width: 80}.text())
		return err
	})
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", 2*time.Second, "how often to look")
	flags.StringVar(&o.by, "sort", sortKeys[0].name, "sort customers by "+sortNames())
	flags.StringVar(&o.filter, "filter", "", "only customers with this in their names")
	flags.BoolVar(&once, "once", false, "print once, even on a terminal")
	registerJSON(command, &asJSON)
	connect.registerPolicy(command)
	connect.register(command)
	return command
}

// look is what was seen at a time.
type look struct {
	snapshot *insight.Snapshot // nil: nothing yet
	top      *insight.Top
	failed   error // why there is no newer snapshot
}

// again looks once more. What cannot be read stays as it was.
func again(ctx context.Context, inspector *insight.Inspector, before look) look {
	snapshot, err := inspector.Look(ctx)
	if err == nil {
		var top *insight.Top
		if top, err = snapshot.Top(ctx); err == nil {
			return look{snapshot, top, nil}
		}
	}
	before.failed = inspector.Hidden(err)
	return before
}

// order says which customers to show, and how they are sorted.
type order struct {
	by     string // of sortKeys
	filter string
}

// sortKey orders customers; equal customers are ordered by their documents and
// names.
type sortKey struct {
	name    string
	compare func(a, b insight.Busy) int
}

var sortKeys = []sortKey{
	{"documents", func(a, b insight.Busy) int { return 0 }},
	{"level", func(a, b insight.Busy) int { return cmp.Compare(stateOf(b).NextLevel, stateOf(a).NextLevel) }},
	{"number", func(a, b insight.Busy) int {
		return cmp.Or(cmp.Compare(stateOf(b).Load, stateOf(a).Load), cmp.Compare(stateOf(a).Count, stateOf(b).Count))
	}},
	{"pending", func(a, b insight.Busy) int { return cmp.Compare(stateOf(b).Pending, stateOf(a).Pending) }},
	{"oldest", func(a, b insight.Busy) int { return cmp.Compare(stateOf(b).OldestMS, stateOf(a).OldestMS) }},
	{"name", func(a, b insight.Busy) int { return strings.Compare(a.Exact(), b.Exact()) }},
}

// stateOf returns the state of a customer.
func stateOf(b insight.Busy) insight.State {
	if b.State == nil {
		return insight.State{}
	}
	return *b.State
}

func sortNames() string {
	names := make([]string, len(sortKeys))
	for i, key := range sortKeys {
		names[i] = key.name
	}
	return strings.Join(names, ", ")
}

func (o order) check() error {
	if o.key() < 0 {
		return usageError("-sort %s is not one of %s", insight.Quoted(o.by), sortNames())
	}
	return nil
}

func (o order) key() int {
	return slices.IndexFunc(sortKeys, func(key sortKey) bool { return key.name == o.by })
}

// next sorts by the next key.
func (o order) next() order {
	o.by = sortKeys[(o.key()+1)%len(sortKeys)].name
	return o
}

// of returns the customers to show.
func (o order) of(all []insight.Busy) []insight.Busy {
	wanted := []insight.Busy{}
	for _, b := range all {
		if strings.Contains(strings.ToLower(b.Exact()), strings.ToLower(o.filter)) {
			wanted = append(wanted, b)
		}
	}
	slices.SortStableFunc(wanted, func(a, b insight.Busy) int {
		return cmp.Or(sortKeys[o.key()].compare(a, b), cmp.Compare(b.Documents, a.Documents), strings.Compare(a.Exact(), b.Exact()))
	})
	return wanted
}
