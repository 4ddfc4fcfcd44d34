package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/customer"
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
	lasts                   span
}

// span is a flag's duration, which may be in days.
type span struct{ time.Duration }

func (*span) Type() string { return "duration" }

func (s *span) Set(text string) (err error) {
	days, inDays := strings.CutSuffix(text, "d")
	if s.Duration, err = time.ParseDuration(text); inDays {
		s.Duration, err = time.ParseDuration(days + "h")
		s.Duration *= 24
	}
	return err
}

func newOverrideSet() *cobra.Command {
	var set overrideSet
	var from fromFlag
	command := &cobra.Command{Use: "set {CUSTOMER… | -from FILE} -level N -for TIME -why TEXT", Long: overrideSetLong, DisableFlagsInUseLine: true}
	flags := command.Flags()
	flags.IntVar(&set.level, "level", 0, "give every document this level")
	flags.IntVar(&set.latest, "not-later-than", 0, "give no document a level that is processed later than this")
	flags.IntVar(&set.earliest, "not-earlier-than", 0, "give no document a level that is processed earlier than this")
	flags.Var(&set.lasts, "for", "how long, such as 90m, 24h or 7d, at most 30d")
	set.changeFlags.register(command)
	from.register(command)
	registerJSON(command)
	return looking(command, set.check, func(c *call, s *insight.Snapshot, args []string) error {
		names, err := from.customers(c, args)
		if err != nil {
			return err
		}
		bounds := priority.Bounds{Earliest: priority.Level(max(set.level, set.earliest)), Latest: priority.Level(max(set.level, set.latest))}
		if level := max(bounds.Earliest, bounds.Latest); level > s.Last {
			return usageError("level %d: the queue's levels are 1 to %d", level, s.Last)
		}
		return c.eachCustomer(names, func(name string) (any, error) {
			s, err := s.Of(c.ctx(), name)
			if err != nil {
				return nil, err
			}
			state, err := s.Peek(c.ctx(), name)
			corrupt := errors.Is(err, priority.ErrCorrupt)
			if err != nil && !corrupt { // before it is listed
				return nil, err
			}
			change := overrideChange{Name: customer.NameOf(name), Says: insight.Says(bounds), Until: s.Now.Add(set.lasts.Duration).UTC().Truncate(time.Second)}
			if len(names) == 1 && !corrupt {
				change.notes = []string{nextLevel(s, state, bounds), s.Following() + "."}
			}
			change.Replaced, err = s.Admin.SetOverride(c.ctx(), name, bounds, set.lasts.Duration, set.change(c))
			return change, err
		})
	})
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
	case s.lasts.Duration < time.Millisecond || s.lasts.Duration > control.MaxOverride:
		return usageError("-for %s is not from 1ms to 30d", insight.Span(s.lasts.Duration))
	}
	return s.changeFlags.check(command)
}

// overrideChange is an override that was set or ended, and the one before.
type overrideChange struct {
	customer.Name
	Says     string            `json:"says"`     // what was done, in words
	Until    time.Time         `json:"until"`    // zero if it was ended
	Replaced *control.Override `json:"replaced"` // nil if there was none

	notes []string // what else a person should know
}

// nextLevel says what an override does to a customer's next document.
func nextLevel(s *insight.Snapshot, state priority.State, bounds priority.Bounds) string {
	says := fmt.Sprintf("The next document gets level %d", bounds.Level(state.RuleLevel, s.Last))
	if bounds.Level(state.RuleLevel, s.Last) == state.NextLevel {
		says += ", as before."
	} else {
		says += fmt.Sprintf(" instead of %d.", state.NextLevel)
	}
	if state.Rule == priority.Unknown {
		says = "Nothing is known of this customer: it is new, or misspelled. " + says
	}
	return says
}

// String is what a person reads.
func (o overrideChange) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: %s", insight.Shown(o.Exact()), o.Says)
	if !o.Until.IsZero() {
		fmt.Fprintf(&out, " until %s", insight.Moment(o.Until))
	}
	notes := o.notes
	if r := o.Replaced; r != nil {
		notes = append(notes, fmt.Sprintf("Before: %s, %s", insight.Says(r.Bounds), insight.Override{Override: *r}.ByWhom()))
	}
	for _, note := range notes {
		out.WriteString("\n  " + strings.ReplaceAll(insight.Wrap(note, 77), "\n", "\n  "))
	}
	return out.String()
}

func newOverrideEnd() *cobra.Command {
	var flags changeFlags
	var from fromFlag
	command := &cobra.Command{
		Use: "end {CUSTOMER… | -from FILE} -why TEXT", DisableFlagsInUseLine: true,
		Long: "End ends customers' overrides: the rule decides their levels again.\n\n  priorityctl override end acme -why 'the demo is over'",
	}
	flags.register(command)
	from.register(command)
	registerJSON(command)
	return looking(command, flags.check, func(c *call, s *insight.Snapshot, args []string) error {
		names, err := from.customers(c, args)
		if err != nil {
			return err
		}
		return c.eachCustomer(names, func(name string) (any, error) {
			s, err := s.Of(c.ctx(), name)
			if err != nil {
				return nil, err
			}
			ended, err := s.Admin.EndOverride(c.ctx(), name, flags.change(c))
			return overrideChange{Name: customer.NameOf(name), Says: "the override has ended", Replaced: ended}, err
		})
	})
}

func newOverrideList() *cobra.Command {
	command := &cobra.Command{
		Use:  "list",
		Long: "List prints all overrides, the next to end first: who set them, and why.\n\n  priorityctl override list",
	}
	registerJSON(command)
	return looking(command, nil, func(c *call, s *insight.Snapshot, _ []string) error {
		all, err := s.Overrides(c.ctx())
		missing, ok := errors.AsType[insight.Missing](err)
		if err != nil && !ok {
			return err
		}
		switch {
		case c.asJSON:
			return cmp.Or(writeAll(c.out, all), missing.Err())
		case len(all) == 0 && missing == nil:
			_, err = fmt.Fprintln(c.out, "There are no overrides.")
			return err
		}
		var out strings.Builder
		out.WriteString("      LEFT  OVERRIDE                  CUSTOMER\n")
		for _, o := range all {
			left := "no end"
			if o.Left > 0 {
				left = insight.Span(o.Left)
			}
			fmt.Fprintf(&out, "%10s  %-24s  %s\n", left, o.Says(), insight.Shown(o.Customer))
			indented(&out, 12, o.ByWhom())
		}
		_, err = io.WriteString(c.out, out.String())
		return cmp.Or(err, missing.Err())
	})
}
