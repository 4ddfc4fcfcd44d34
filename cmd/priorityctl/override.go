package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const overrideLong = `Override fixes the level of a customer's documents for a time, or bounds it
from one side. Counting goes on beneath. Level 1 is processed first, the last
level last.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl override set acme -not-later-than 4 -for 24h -why 'their contract'
  priorityctl override set acme -not-earlier-than 9 -for 30m -why 'a test run'
  priorityctl override list
  priorityctl override end acme -why 'the demo is over'`

const overrideSetLong = `Set gives customers an override from now on, for at most 30 days, in place of
one that they may have.

With -from it takes the JSON of any command that names customers. Lines of
override list are set as they are, until the same time; flags say otherwise.
Of log it is each customer's last change that counts:

  priorityctl override list -json >overrides
  priorityctl override set -from overrides -why 'as before'
  priorityctl list -level 9 -json | priorityctl override set -from - \
    -not-later-than 5 -for 1h -why 'the import is over'

` + changeHelp

func newOverride() *cobra.Command {
	command := &cobra.Command{
		Use:   "override",
		Short: "Fixes or bounds the level of a customer for a time",
		Long:  overrideLong,
		Args:  unknownCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newOverrideSet(), newOverrideList(), newOverrideEnd())
	return command
}

// overrideSet is what the command is told.
type overrideSet struct {
	changeFlags
	from                    fromFlag
	level, latest, earliest int
	lasts                   time.Duration
}

func newOverrideSet() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var set overrideSet
	var asJSON bool
	command := &cobra.Command{
		Use: "set {CUSTOMER… | -from FILE} -level N -for TIME -why TEXT",

		DisableFlagsInUseLine: true,
		Short:                 "Gives customers an override",
		Long:                  overrideSetLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:                  set.from.check,
		ValidArgsFunction:     cobra.NoFileCompletions,
		PreRunE:               func(command *cobra.Command, _ []string) error { return set.check(command) },
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := set.from.customers(command, args)
		if err != nil {
			return err
		}
		if set.level+set.latest+set.earliest == 0 {
			if lines, err = overridden(lines); err != nil {
				return err
			}
		}
		if len(lines) > 1 && command.Flags().Changed("replaces") {
			return usageError("-replaces is for one customer, not for %d", len(lines))
		}
		if err := c.mustFollow(command); err != nil {
			return err
		}
		at := 0
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			line := lines[at]
			at++
			return set.do(ctx, command, c, line)
		})
	})
	flags := command.Flags()
	flags.IntVar(&set.level, "level", 0, "give every document this level")
	flags.IntVar(&set.latest, "not-later-than", 0, "give no document a level that is processed later than this")
	flags.IntVar(&set.earliest, "not-earlier-than", 0, "give no document a level that is processed earlier than this")
	flags.DurationVar(&set.lasts, "for", 0, "for how long, as 90m or 24h, at most 720h")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	set.changeFlags.register(command)
	set.from.register(command)
	queue.register(command)
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
		return usageError("-for %v is not from 1ms to %v", s.lasts, control.MaxOverride)
	case s.from.file == "" || command.Flags().Changed("why"):
		return s.checkWhy()
	}
	return nil
}

// override returns what the flags say, or else a line.
func (s *overrideSet) override(line named) (control.Override, error) {
	switch {
	case s.level > 0:
		return control.Pin(priority.Level(s.level)), nil
	case s.latest > 0:
		return control.Override{Latest: priority.Level(s.latest)}, nil
	case s.earliest > 0:
		return control.Override{Earliest: priority.Level(s.earliest)}, nil
	case line.Earliest == 0 && line.Latest == 0:
		return control.Override{}, usageError("the line has no override, and no flag says one")
	}
	return control.Override{Earliest: line.Earliest, Latest: line.Latest}, nil
}

// overrideChanged is an override that was set or ended, and the one before.
type overrideChanged struct {
	insight.Name
	Version  int64               `json:"version"`
	Override *insight.Overridden `json:"override"` // null: there is none any more
	Replaced *insight.Overridden `json:"replaced"` // null: there was none
}

// do sets the override of one line.
func (s *overrideSet) do(ctx context.Context, command *cobra.Command, c *connection, line named) (any, error) {
	customer := line.Exact()
	override, err := s.override(line)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", insight.Shown(customer), err)
	}
	lasts := s.lasts
	if lasts == 0 {
		if lasts = line.Until.Sub(c.Now).Truncate(time.Millisecond); lasts <= 0 {
			return nil, usageError("%s: the line's end has passed, or it has none: give -for", insight.Shown(customer))
		}
	}
	changed := overrideChanged{Name: insight.NameOf(customer), Replaced: c.OverrideOf(customer)}
	change := s.change(command, changed.replaced())
	if change.Why == "" {
		change.Why = line.Why
	}
	if changed.Version, err = c.Admin.SetOverride(ctx, customer, override, lasts, change); err != nil {
		return nil, explained(ctx, c, err, "override", customer)
	}
	if err := c.refollow(ctx); err != nil {
		return nil, err
	}
	changed.Override = c.OverrideOf(customer)
	return changed, nil
}

func (o *overrideChanged) replaced() int64 {
	if o.Replaced == nil {
		return 0
	}
	return o.Replaced.Version
}

// String is what a person reads.
func (o overrideChanged) String() string {
	var out strings.Builder
	switch {
	case o.Override == nil || o.Override.Version != o.Version:
		fmt.Fprintf(&out, "%s: the override has ended", insight.Shown(o.Exact()))
		if o.Override != nil {
			fmt.Fprintf(&out, "; meanwhile there is another, by %s", insight.Shown(o.Override.By))
		}
	default:
		fmt.Fprintf(&out, "%s: %s until %s, for %s", insight.Shown(o.Exact()), o.Override.Says, insight.Moment(o.Override.Until), insight.Span(o.Override.Left()))
	}
	fmt.Fprintf(&out, " (version %d)", o.Version)
	if r := o.Replaced; r != nil {
		was := fmt.Sprintf("before: %s for %s more, by %s: %s (version %d)", r.Says, insight.Span(r.Left()), insight.Shown(r.By), insight.Quoted(r.Why), r.Version)
		out.WriteString("\n  " + strings.ReplaceAll(insight.Wrap(was, 77), "\n", "\n  "))
	}
	return out.String()
}

func newOverrideEnd() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var flags changeFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use:               "end {CUSTOMER… | -from FILE} -why TEXT",
		Short:             "Ends customers' overrides",
		Long:              "End ends customers' overrides: their levels are those of the rule again.\n\n" + changeHelp + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              from.check,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           func(*cobra.Command, []string) error { return flags.checkWhy() },
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if err := c.mustFollow(command); err != nil {
			return err
		}
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			changed := overrideChanged{Name: insight.NameOf(customer), Replaced: c.OverrideOf(customer)}
			version, err := c.Admin.EndOverride(ctx, customer, flags.change(command, changed.replaced()))
			if changed.Version = version; err != nil {
				return nil, explained(ctx, c, err, "override", customer)
			}
			return changed, nil
		})
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	flags.register(command)
	from.register(command)
	queue.register(command)
	connect.register(command)
	return command
}

func newOverrideList() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "list",
		Short:             "Lists all overrides in force",
		Long:              "List prints all overrides in force, those that end first first.\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.mustFollow(command); err != nil {
			return err
		}
		return printOverrides(command.OutOrStdout(), c.Overrides(), asJSON)
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object an override")
	queue.register(command)
	connect.register(command)
	return command
}

func printOverrides(w io.Writer, all []*insight.Overridden, asJSON bool) error {
	if asJSON {
		return writeAll(w, all)
	}
	var out strings.Builder
	if len(all) == 0 {
		out.WriteString("No override is in force.\n")
	} else {
		out.WriteString("VERSION        LEFT  OVERRIDE                  CUSTOMER\n")
	}
	for _, o := range all {
		fmt.Fprintf(&out, "%7d  %10s  %-24s  %s\n", o.Version, insight.Span(o.Left()), o.Says, insight.Shown(o.Exact()))
		indented(&out, 21, fmt.Sprintf("by %s: %s", insight.Shown(o.By), insight.Quoted(o.Why)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
