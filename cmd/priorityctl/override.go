package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const overrideLong = `Override fixes the level of a customer's documents for a time, or bounds it from
one side, from the next document on. The documents are still counted, and queued
ones keep their level.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl override set acme -not-later-than 4 -for 24h -why 'their contract'
  priorityctl override set acme -not-earlier-than 9 -for 30m -why 'a test run'
  priorityctl override list -search acme
  priorityctl override end acme -why 'the demo is over'`

func newOverride() *cobra.Command {
	return group("override", overrideLong, newOverrideSet(), newOverrideList(), newOverrideEnd())
}

const overrideSetLong = `Set gives customers an override from now on, in place of any earlier one, for at
most 30 days. The lines of override list -json are set as they are, until the
same time, unless flags say otherwise.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl list -level 9 -json | priorityctl override set -from - \
    -not-later-than 5 -for 1h -why 'the import is over'`

// overrideSet holds the command's flags.
type overrideSet struct {
	changeFlags
	from                    fromFlag
	level, latest, earliest int
	lasts                   time.Duration
}

func newOverrideSet() *cobra.Command {
	var connect connectionFlags
	var set overrideSet
	var asJSON bool
	command := &cobra.Command{
		Use: "set {CUSTOMER… | -from FILE} -level N -for TIME -why TEXT", Long: overrideSetLong,
		DisableFlagsInUseLine: true, Args: set.from.check,
	}
	command.RunE = connected(&connect, set.check, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := set.from.customers(command, args)
		if err != nil {
			return err
		}
		for name, level := range map[string]int{"level": set.level, "not-later-than": set.latest, "not-earlier-than": set.earliest} {
			if level > int(c.Last) {
				return usageError("-%s %d: the queue's levels are 1 to %d", name, level, c.Last)
			}
		}
		return eachCustomer(command, c, lines, asJSON, func(ctx context.Context, line named) (any, error) {
			return set.do(ctx, command, c, line, len(lines) == 1)
		})
	})
	flags := command.Flags()
	flags.IntVar(&set.level, "level", 0, "give every document this level")
	flags.IntVar(&set.latest, "not-later-than", 0, "give no document a level that is processed later than this")
	flags.IntVar(&set.earliest, "not-earlier-than", 0, "give no document a level that is processed earlier than this")
	flags.DurationVar(&set.lasts, "for", 0, "for how long, as 90m or 24h, at most 720h")
	set.changeFlags.register(command)
	set.from.register(command)
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func (s *overrideSet) check(command *cobra.Command) error {
	given := 0
	for _, name := range []string{"level", "not-later-than", "not-earlier-than"} {
		if command.Flags().Changed(name) {
			given++
			if level, _ := command.Flags().GetInt(name); level < 1 {
				return usageError("-%s %d: levels begin at 1", name, level)
			}
		}
	}
	switch lasts := command.Flags().Changed("for"); {
	case given > 1:
		return usageError("give one of -level, -not-later-than and -not-earlier-than")
	case given == 0 && s.from.file == "":
		return usageError("-level, -not-later-than or -not-earlier-than is missing")
	case !lasts && s.from.file == "":
		return usageError("-for is missing: an override ends by itself, within 30 days")
	case lasts && (s.lasts < time.Millisecond || s.lasts > control.MaxOverride):
		return usageError("-for %s is not from 1ms to %s", insight.Span(s.lasts), insight.Span(control.MaxOverride))
	case s.from.file == "" || command.Flags().Changed("why"):
		return s.changeFlags.check(command)
	}
	return nil
}

// bounds returns what the flags say, or else a line.
func (s *overrideSet) bounds(line named) (priority.Override, error) {
	bounds := priority.Override{Earliest: line.Earliest, Latest: line.Latest}
	switch {
	case s.level > 0:
		bounds = priority.Override{Earliest: priority.Level(s.level), Latest: priority.Level(s.level)}
	case s.latest > 0:
		bounds = priority.Override{Latest: priority.Level(s.latest)}
	case s.earliest > 0:
		bounds = priority.Override{Earliest: priority.Level(s.earliest)}
	}
	if bounds == (priority.Override{}) {
		return bounds, usageError("%s: the line has no override, and no flag says one", insight.Shown(line.Exact()))
	}
	return bounds, nil
}

// overrideChanged is an override that was set or ended, and the one before.
type overrideChanged struct {
	insight.Name
	Says     string            `json:"says"`     // what was done
	Until    time.Time         `json:"until"`    // zero: it was ended
	Replaced *control.Override `json:"replaced"` // null: there was none

	// Consequence is what it does to the next document. Missing if several were set.
	Consequence *insight.Consequence `json:"consequence,omitempty"`

	workers string // who does not apply it
}

// do sets the override of one line.
func (s *overrideSet) do(ctx context.Context, command *cobra.Command, c *connection, line named, alone bool) (any, error) {
	customer := line.Exact()
	bounds, err := s.bounds(line)
	if err != nil {
		return nil, err
	}
	lasts := s.lasts
	if lasts == 0 {
		if lasts = line.Until.Sub(c.Now.Add(time.Since(c.At))).Truncate(time.Millisecond); lasts <= 0 {
			return nil, usageError("%s: the line's end has passed, or it has none: give -for", insight.Shown(customer))
		}
	}
	changed := overrideChanged{Name: insight.NameOf(customer), Says: insight.Says(bounds), Until: c.Now.Add(lasts).UTC().Truncate(time.Second)}
	if alone { // else it would take another call for each
		if state, err := c.Store.Peek(ctx, customer); err == nil {
			consequence := c.ConsequenceOf(customer, state, bounds)
			changed.Consequence = &consequence
		}
		changed.workers = c.ignoring()
	}
	change := s.change(command)
	if change.Why == "" {
		change.Why = line.Why
	}
	changed.Replaced, err = c.Admin.SetOverride(ctx, customer, bounds, lasts, change)
	return changed, err
}

// ignoring says which workers do not apply overrides; empty: all do.
func (c *connection) ignoring() string {
	var names []string
	for _, w := range c.Workers {
		if w.Here && (!w.Overrides || w.Degraded) {
			names = append(names, w.Called())
		}
	}
	if names == nil {
		return ""
	}
	return "Not applied by " + insight.Named(names) + ": see priorityctl workers."
}

// String is what a person reads.
func (o overrideChanged) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s", insight.Shown(o.Exact()), o.Says)
	if !o.Until.IsZero() {
		fmt.Fprintf(&out, " until %s", insight.Moment(o.Until))
	}
	further := func(text string) {
		if text != "" {
			out.WriteString("\n  " + strings.ReplaceAll(insight.Wrap(text, 77), "\n", "\n  "))
		}
	}
	if o.Consequence != nil {
		further(o.Consequence.Says)
	}
	further(o.workers)
	if r := o.Replaced; r != nil {
		further(fmt.Sprintf("Before: %s, by %s: %s", insight.Says(r.Bounds), insight.Shown(r.By), insight.Quoted(r.Why)))
	}
	return out.String()
}

func newOverrideEnd() *cobra.Command {
	var connect connectionFlags
	var flags changeFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use: "end {CUSTOMER… | -from FILE} -why TEXT", DisableFlagsInUseLine: true, Args: from.check,
		Long: "End ends customers' overrides: the rule decides their levels again.\n\n  priorityctl override end acme -why 'the demo is over'",
	}
	command.RunE = connected(&connect, flags.check, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		return eachCustomer(command, c, lines, asJSON, func(ctx context.Context, line named) (any, error) {
			ended, err := c.Admin.EndOverride(ctx, line.Exact(), flags.change(command))
			return overrideChanged{Name: line.Name, Says: "the override has ended", Replaced: ended}, err
		})
	})
	flags.register(command)
	from.register(command)
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func newOverrideList() *cobra.Command {
	var connect connectionFlags
	var search string
	var asJSON bool
	command := &cobra.Command{
		Use:  "list",
		Long: "List prints all overrides, the next to end first: who set them, and why.\n\n  priorityctl override list -search mary",
	}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		all, err := c.Overrides(command.Context())
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(o *insight.Override) bool {
			return !strings.Contains(strings.ToLower(o.Exact()+"\x00"+o.By+"\x00"+o.Why), strings.ToLower(search))
		})
		if asJSON {
			return writeAll(command.OutOrStdout(), all)
		}
		return printOverrides(command.OutOrStdout(), all)
	})
	command.Flags().StringVar(&search, "search", "", "only those with this text in the customer, in who set it, or in why")
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func printOverrides(w io.Writer, all []*insight.Override) error {
	out := bufio.NewWriter(w)
	if len(all) == 0 {
		fmt.Fprintln(out, "There is no such override.")
	} else {
		fmt.Fprintln(out, "      LEFT  OVERRIDE                  CUSTOMER")
	}
	for _, o := range all {
		left := "no end"
		if o.LeftMS > 0 {
			left = insight.Span(o.Left())
		}
		fmt.Fprintf(out, "%10s  %-24s  %s\n", left, o.Says, insight.Shown(o.Exact()))
		indented(out, 12, o.ByWhom())
	}
	return out.Flush()
}
