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
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const overrideLong = `Override fixes the level of a customer's documents for a time, or bounds it
from one side. It applies from the next document on, in every worker that reads
overrides. The documents are still counted. Level 1 is processed first, the last
level last.

  priorityctl override set acme -level 1 -for 2h -why 'the demo at six'
  priorityctl override set acme -not-later-than 4 -for 24h -why 'their contract'
  priorityctl override set acme -not-earlier-than 9 -for 30m -why 'a test run'
  priorityctl override list -search acme
  priorityctl override end acme -why 'the demo is over'`

var overrideSetLong = `Set gives customers an override from now on, for at most
30 days, in place of any earlier one.

With -from it takes the JSON of any command that names customers. Lines of
override list are set as they are, until the same time, unless flags say
otherwise. In the log, each customer's last change counts:

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

// overrideSet holds the command's flags.
type overrideSet struct {
	changeFlags
	from                    fromFlag
	level, latest, earliest int
	lasts                   time.Duration

	alone        bool // there is one customer
	done         int
	mostEarliest priority.Level // of the overrides set so far
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
		if err := c.fit(command, &queue); err != nil {
			return err
		}
		if err := set.checkLevels(c.Admin.Levels()); err != nil {
			return err
		}
		set.alone = len(lines) == 1
		at := 0
		err = eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			line := lines[at]
			at++
			return set.do(ctx, command, c, line)
		})
		if !asJSON && set.done > 0 && !set.alone {
			override := priority.Override{Earliest: set.mostEarliest}
			indented(command.OutOrStdout(), 0, fmt.Sprintf("%s %s", insight.Plural(int64(set.done), "override"), c.obey(override)))
		}
		return err
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
		return usageError("-for %s is not from 1ms to %s", insight.Span(s.lasts), insight.Span(control.MaxOverride))
	case s.from.file == "" || command.Flags().Changed("why"):
		return s.checkWhy()
	}
	return nil
}

// checkLevels makes sure that the queue has the levels of the flags.
func (s *overrideSet) checkLevels(levels priority.Level) error {
	for name, level := range map[string]int{"level": s.level, "not-later-than": s.latest, "not-earlier-than": s.earliest} {
		if level > int(levels) {
			return usageError("-%s %d: there is no such level; the queue's are 1 to %d, unless -levels says otherwise", name, level, levels)
		}
	}
	return nil
}

// override returns what the flags say, or else a line.
func (s *overrideSet) override(line named) (priority.Override, error) {
	switch {
	case s.level > 0:
		return priority.Override{Earliest: priority.Level(s.level), Latest: priority.Level(s.level)}, nil
	case s.latest > 0:
		return priority.Override{Latest: priority.Level(s.latest)}, nil
	case s.earliest > 0:
		return priority.Override{Earliest: priority.Level(s.earliest)}, nil
	case line.Earliest == 0 && line.Latest == 0:
		return priority.Override{}, usageError("the line has no override, and no flag says one")
	}
	return priority.Override{Earliest: line.Earliest, Latest: line.Latest}, nil
}

// overrideChanged is an override that was set or ended, and the one before.
type overrideChanged struct {
	insight.Name
	Version  int64               `json:"version"`
	Override *insight.Overridden `json:"override"` // null: the override has ended
	Replaced *insight.Overridden `json:"replaced"` // null: there was no override

	// Obey says who applies it, and Consequence what it does to the next document;
	// missing if that is unknown.
	Obey        insight.Obedience    `json:"obey"`
	Consequence *insight.Consequence `json:"consequence,omitempty"`

	alone bool // no other customer is changed with this one
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
		if lasts = line.Until.Sub(c.Now()).Truncate(time.Millisecond); lasts <= 0 {
			return nil, usageError("%s: the line's end has passed, or it has none: give -for", insight.Shown(customer))
		}
	}
	replaced, err := c.OverrideOf(ctx, customer)
	if err != nil {
		return nil, explained(ctx, c, err, "override", customer)
	}
	changed := overrideChanged{Name: insight.NameOf(customer), Replaced: replaced, Obey: c.obey(override), alone: s.alone}
	// The consequence is shown only for one customer, as it takes another call.
	if state, err := c.Store.Peek(ctx, customer); err == nil && s.alone {
		consequence := insight.ConsequenceOf(customer, state, override, c.Admin.Levels(), fleet.Add(c.reports))
		changed.Consequence = &consequence
	}
	change := s.change(command, changed.replaced())
	if change.Why == "" {
		change.Why = line.Why
	}
	if changed.Version, err = c.Admin.SetOverride(ctx, customer, override, lasts, change); err != nil {
		return nil, explained(ctx, c, err, "override", customer)
	}
	now := c.Now().UTC().Truncate(time.Millisecond)
	changed.Override = &insight.Overridden{
		Name: insight.NameOf(customer), Earliest: override.Earliest, Latest: override.Latest, Says: insight.Says(override), InForce: true,
		LeftMS: lasts.Milliseconds(), Version: changed.Version, At: now, Until: now.Add(lasts), By: change.By, Why: change.Why,
	}
	s.done++
	s.mostEarliest = max(s.mostEarliest, override.Earliest)
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
	if o.Override == nil {
		fmt.Fprintf(&out, "%s: the override has ended", insight.Shown(o.Exact()))
	} else {
		fmt.Fprintf(&out, "%s: %s until %s, for %s", insight.Shown(o.Exact()), o.Override.Says, insight.Moment(o.Override.Until), insight.Span(o.Override.Left()))
	}
	fmt.Fprintf(&out, " (version %d)", o.Version)
	further := func(text string) {
		out.WriteString("\n  " + strings.ReplaceAll(insight.Wrap(text, 77), "\n", "\n  "))
	}
	if o.Override != nil && o.alone {
		further(o.Obey.String())
	}
	if o.Consequence != nil {
		further(o.Consequence.Says)
	}
	if r := o.Replaced; r != nil && r.Version > 0 {
		further(fmt.Sprintf("before: %s for %s more, by %s: %s (version %d)", r.Says, insight.Span(r.Left()), insight.Shown(r.By), insight.Quoted(r.Why), r.Version))
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
		Long:              "End ends customers' overrides: the rule decides their levels again.\n\n" + changeHelp + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              from.check,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           func(*cobra.Command, []string) error { return flags.checkWhy() },
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if err := c.fit(command, &queue); err != nil {
			return err
		}
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			replaced, err := c.OverrideOf(ctx, customer)
			if err != nil {
				return nil, explained(ctx, c, err, "override", customer)
			}
			changed := overrideChanged{Name: insight.NameOf(customer), Replaced: replaced, Obey: c.obey(priority.Override{})}
			if changed.Version, err = c.Admin.EndOverride(ctx, customer, flags.change(command, changed.replaced())); err != nil {
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

const overrideListLong = `List prints all recorded overrides that have not
ended, the next to end first. If an override's key in Redis is gone, or holds
something else, the override is not in force, and the line below it says so. Set
it again, or end it.

  priorityctl override list
  priorityctl override list -search mary
  priorityctl override list -not-in-force`

// overrideList holds the command's flags.
type overrideList struct {
	search     string
	limit      int
	notInForce bool
}

func newOverrideList() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var list overrideList
	var asJSON bool
	command := &cobra.Command{
		Use:               "list",
		Short:             "Lists all overrides",
		Long:              overrideListLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if list.limit < 0 {
				return usageError("-limit %d is negative", list.limit)
			}
			return nil
		},
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.clock(command); err != nil {
			return err
		}
		all, err := c.Overrides(command.Context())
		if err != nil {
			return c.broken(err)
		}
		c.warnOfLoss(command)
		if len(all) == 0 && !asJSON {
			_, err := fmt.Fprintln(command.OutOrStdout(), "There is no override.")
			return err
		}
		return printOverrides(command.OutOrStdout(), list.of(all), asJSON)
	})
	flags := command.Flags()
	flags.StringVar(&list.search, "search", "", "only overrides with this in the customer's name, in who set them or in why, in upper or lower case")
	flags.BoolVar(&list.notInForce, "not-in-force", false, "only overrides that are recorded but not in force")
	flags.IntVar(&list.limit, "limit", 0, "how many at most; 0: all")
	flags.BoolVar(&asJSON, "json", false, "print one JSON object an override")
	queue.register(command)
	connect.register(command)
	return command
}

// of returns the overrides that the flags select.
func (l *overrideList) of(all []*insight.Overridden) []*insight.Overridden {
	search := strings.ToLower(l.search)
	all = slices.DeleteFunc(all, func(o *insight.Overridden) bool {
		found := search == "" || slices.ContainsFunc([]string{o.Exact(), o.By, o.Why}, func(text string) bool {
			return strings.Contains(strings.ToLower(text), search)
		})
		return !found || l.notInForce && o.InForce
	})
	if l.limit > 0 && len(all) > l.limit {
		all = all[:l.limit]
	}
	return all
}

func printOverrides(w io.Writer, all []*insight.Overridden, asJSON bool) error {
	if asJSON {
		return writeAll(w, all)
	}
	out := bufio.NewWriter(w)
	if len(all) == 0 {
		fmt.Fprintln(out, "There is no such override.")
	} else {
		fmt.Fprintln(out, "VERSION        LEFT  OVERRIDE                  CUSTOMER")
	}
	for _, o := range all {
		fmt.Fprintf(out, "%7d  %10s  %-24s  %s\n", o.Version, insight.Span(o.Left()), o.Says, insight.Shown(o.Exact()))
		indented(out, 21, fmt.Sprintf("by %s: %s", insight.Shown(o.By), insight.Quoted(o.Why)))
		if trouble := o.Trouble(); trouble != "" {
			indented(out, 21, trouble)
		}
	}
	return out.Flush()
}
