package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const topLong = `Top shows which levels documents really got in the last minute, how long they took
from Submit to Done, and the customers with the most documents: live on a terminal,
until q or Ctrl-C; once anywhere else. On a terminal, ? shows the keys.

It adds up what workers that use fleet.Join, or its equivalent in another language,
report every five seconds. BY COUNT and BY LOAD are the documents that got a
level by each rule, overrides included. MEDIAN and 95TH are how long documents
of the level took; OLDEST is the age of the oldest pending document of the
customers shown whose newest document has the level. LAST is the level of a
customer's last document, NEXT the level of a document that arrives now.
` + followHelp

func newTop() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var interval time.Duration
	var once, asJSON bool
	var o order
	busiest := 0
	command := &cobra.Command{
		Use:               "top",
		Short:             "Shows what documents get and how long they take, live",
		Long:              topLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if interval < 100*time.Millisecond {
				return usageError("-interval %v is less than 100ms", interval)
			}
			if busiest < 0 || busiest > 1000 {
				return usageError("-customers %d is not from 0 to 1000", busiest)
			}
			return o.check()
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		t := top{c, busiest}
		if !once && !asJSON && isTerminal(command.OutOrStdout()) {
			return t.live(command, interval, o)
		}
		return t.once(command, asJSON, o)
	})
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", 2*time.Second, "how often to look")
	flags.IntVar(&busiest, "customers", 100, "how many of the busiest customers to look up")
	flags.StringVar(&o.by, "sort", sortKeys[0].name, "sort customers by "+sortNames())
	flags.StringVar(&o.filter, "filter", "", "only customers with this in their names")
	flags.BoolVar(&once, "once", false, "print once, even on a terminal")
	flags.BoolVar(&asJSON, "json", false, "print once, as one JSON object")
	complete(command, "sort", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return strings.Split(sortNames(), ", "), cobra.ShellCompDirectiveNoFileComp
	})
	connect.register(command)
	policies.register(command)
	return command
}

// top looks at a fleet.
type top struct {
	*connection
	busiest int
}

// look is what was seen at a time.
type look struct {
	inspector  *insight.Inspector
	title      string
	snapshot   *insight.Snapshot // nil: nothing yet
	failed     error             // why there is no newer snapshot
	unfollowed error             // why what operators have set is unknown
}

// again looks once more. What cannot be read stays as it was.
func (t top) again(ctx context.Context, before look) look {
	now := before
	followed, err := before.inspector.Follow(ctx)
	if now.unfollowed = t.Hidden(err); err == nil {
		now.inspector = followed
	}
	found, err := now.inspector.Snapshot(ctx, t.busiest)
	if now.failed = t.Hidden(err); err == nil {
		now.snapshot = found
	}
	policy := now.inspector.Policy.Name
	if now.snapshot != nil {
		policy = cmp.Or(now.snapshot.Kept, policy)
	}
	now.title = fmt.Sprintf("%s  prefix %s  policy %s", t.Server.Address, insight.Shown(t.Prefix), policy)
	return now
}

// once prints what there is now.
func (t top) once(command *cobra.Command, asJSON bool, o order) error {
	out := command.OutOrStdout()
	if err := t.follow(command); err != nil {
		return err
	}
	now := t.again(command.Context(), look{inspector: &t.Inspector})
	if now.failed != nil {
		return t.broken(now.failed)
	}
	now.snapshot.Busiest = o.of(now.snapshot.Busiest)
	if asJSON {
		return writeJSON(out, now.snapshot)
	}
	_, err := io.WriteString(out, drawing{look: now, width: 80}.text())
	return err
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
