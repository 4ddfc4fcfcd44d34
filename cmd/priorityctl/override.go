package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/spf13/cobra"
)

const overrideLong = `Override fixes the level of a customer's documents for a time, or bounds it from
one side, from the next document on. The documents are still counted, and queued
ones keep their level.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl override set acme -not-later-than 4 -for 24h -why 'their contract'
  priorityctl override set acme -not-earlier-than 9 -for 30m -why 'a test run'
  priorityctl override list
  priorityctl override end acme -why 'the demo is over'`

func newOverride() *cobra.Command {
	return group("override", overrideLong, newOverrideSet(), newOverrideList(), newOverrideEnd())
}

const overrideSetLong = `Set gives customers an override from now on, in place of any earlier one, for at
most 30 days.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl list -level 9 -json | priorityctl override set -from - \
    -not-later-than 5 -for 1h -why 'the import is over'`

// overrideSet holds the command's flags.
type overrideSet struct {
	changeFlags
	level, latest, earliest int
	lasts                   time.Duration
}

func newOverrideSet() *cobra.Command {
	var connect connectionFlags
	var set overrideSet
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use: "set {CUSTOMER… | -from FILE} -level N -for TIME -why TEXT", Long: overrideSetLong,
		DisableFlagsInUseLine: true, Args: from.check,
	}
	command.RunE = connected(&connect, set.check, func(command *cobra.Command, c *connection, args []string) error {
		customers, err := from.customers(command, args)
		if err != nil {
			return err
		}
		bounds := set.bounds()
		if level := max(bounds.Earliest, bounds.Latest); level > c.Last {
			return usageError("level %d: the queue's levels are 1 to %d", level, c.Last)
		}
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			changed := overrideChanged{Name: insight.NameOf(customer), Says: insight.Says(bounds), Until: c.Now.Add(set.lasts).UTC().Truncate(time.Second)}
			if len(customers) == 1 { // else it would take another call for each
				changed.notes = append(changed.notes, c.nextOf(ctx, customer, bounds), c.ignoring())
			}
			var err error
			changed.Replaced, err = c.Admin.SetOverride(ctx, customer, bounds, set.lasts, set.change(command))
			return changed, err
		})
	})
	flags := command.Flags()
	flags.IntVar(&set.level, "level", 0, "give every document this level")
	flags.IntVar(&set.latest, "not-later-than", 0, "give no document a level that is processed later than this")
	flags.IntVar(&set.earliest, "not-earlier-than", 0, "give no document a level that is processed earlier than this")
	flags.DurationVar(&set.lasts, "for", 0, "how long, such as 90m or 24h, at most 720h")
	set.changeFlags.register(command)
	from.register(command)
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

func (s *overrideSet) check(command *cobra.Command) error {
	given := 0
	for _, name := range []string{"level", "not-later-than", "not-earlier-than"} {
		if command.Flags().Changed(name) {
			given++
			if level, _ := command.Flags().GetInt(name); level < 1 || level > 255 {
				return usageError("-%s %d: levels are from 1 to 255", name, level)
			}
		}
	}
	switch {
	case given != 1:
		return usageError("give one of -level, -not-later-than and -not-earlier-than")
	case !command.Flags().Changed("for"):
		return usageError("-for is missing: an override ends by itself, within 30 days")
	case s.lasts < time.Millisecond || s.lasts > control.MaxOverride:
		return usageError("-for %s is not from 1ms to %s", insight.Span(s.lasts), insight.Span(control.MaxOverride))
	}
	return s.changeFlags.check(command)
}

// bounds returns what the flags say.
func (s *overrideSet) bounds() priority.Override {
	return priority.Override{Earliest: priority.Level(max(s.level, s.earliest)), Latest: priority.Level(max(s.level, s.latest))}
}

// overrideChanged is an override that was set or ended, and the one before.
type overrideChanged struct {
	insight.Name
	Says     string            `json:"says"`     // what was done
	Until    time.Time         `json:"until"`    // zero: it was ended
	Replaced *control.Override `json:"replaced"` // null: there was none

	notes []string // for a person
}

// nextOf says what an override does to a customer's next document.
func (c *connection) nextOf(ctx context.Context, customer string, bounds priority.Override) string {
	state, err := c.Store.Peek(ctx, customer)
	if err != nil {
		return ""
	}
	says := fmt.Sprintf("The next document gets level %d instead of %d.", bounds.Level(state.RuleLevel, c.Last), state.NextLevel)
	if state.Rule == priority.Unknown {
		says = "Nothing is known of this customer: it is new, or misspelled. " + says
	}
	return says
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
	notes := o.notes
	if r := o.Replaced; r != nil {
		notes = append(notes, fmt.Sprintf("Before: %s, by %s: %s", insight.Says(r.Bounds), insight.Shown(r.By), insight.Quoted(r.Why)))
	}
	for _, note := range notes {
		if note != "" {
			out.WriteString("\n  " + strings.ReplaceAll(insight.Wrap(note, 77), "\n", "\n  "))
		}
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
		customers, err := from.customers(command, args)
		if err != nil {
			return err
		}
		return eachCustomer(command, c, customers, asJSON, func(ctx context.Context, customer string) (any, error) {
			ended, err := c.Admin.EndOverride(ctx, customer, flags.change(command))
			return overrideChanged{Name: insight.NameOf(customer), Says: "the override has ended", Replaced: ended}, err
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
	var asJSON bool
	command := &cobra.Command{
		Use:  "list",
		Long: "List prints all overrides, the next to end first: who set them, and why.\n\n  priorityctl override list",
	}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		all, err := c.Overrides(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return writeAll(command.OutOrStdout(), all)
		}
		return printOverrides(command.OutOrStdout(), all)
	})
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
