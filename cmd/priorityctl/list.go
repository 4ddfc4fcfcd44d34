package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/insight/census"
	"github.com/spf13/cobra"
)

const listLong = `List prints every customer that Redis knows, in the order of
SCAN, on all masters of a cluster. Its pace is bounded, so that Redis has time
for the fleet. NEXT is the level of a document that arrives now, by the rule
that the customer is counted by. ` + followHelp + `

If it is interrupted or reaches -limit, it prints a cursor on stderr, and
-cursor continues from there. Every customer who exists throughout is printed,
some twice if Redis's table of keys shrinks or a cluster moves slots meanwhile.

It looks at every key of Redis, also at those with another prefix, until it has
found -limit customers.

  priorityctl list -level 8,9
  priorityctl list -count-below -1000 -load-above 32768
  priorityctl list -limit 1000
  priorityctl list -level 9 -json | priorityctl get -from -`

// list holds the command's flags.
type list struct {
	levels  []int
	below   int64
	above   float64
	corrupt bool
	limit   int
	pace    int
	cursor  string
	asJSON  bool

	wanted func(insight.Listed) bool // by these flags
}

func newList() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var l list
	command := &cobra.Command{
		Use:               "list",
		Short:             "Lists all customers that Redis knows",
		Long:              listLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           func(command *cobra.Command, _ []string) error { return l.check(command) },
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.follow(command); err != nil {
			return err
		}
		return l.run(command, c)
	})
	flags := command.Flags()
	flags.IntSliceVar(&l.levels, "level", nil, "only customers whose next document gets one of these levels, as 8,9")
	flags.Int64Var(&l.below, "count-below", 0, "only customers whose count is lower than this, as -1000")
	flags.Float64Var(&l.above, "load-above", 0, "only customers whose load is higher than this, as 512; with -count-below, both")
	flags.BoolVar(&l.corrupt, "corrupt", false, "only customers one of whose keys, the override included, holds something else")
	flags.IntVar(&l.limit, "limit", 0, "stop with the page that reaches so many customers; 0: list all")
	registerPace(command, &l.pace)
	flags.StringVar(&l.cursor, "cursor", "", "go on where a list stopped that printed this")
	flags.BoolVar(&l.asJSON, "json", false, "print one JSON object a customer")
	complete(command, "level", func(command *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return levelNumbers(command, &policies), cobra.ShellCompDirectiveNoFileComp
	})
	connect.register(command)
	policies.register(command)
	return command
}

func registerPace(command *cobra.Command, pace *int) {
	command.Flags().IntVar(pace, "pace", 10_000, "look at no more keys a second than this; 0: as fast as Redis answers")
}

func checkPace(pace int) error {
	if pace < 0 {
		return usageError("-pace %d is negative", pace)
	}
	return nil
}

// levelNumbers are what the shell offers for -level.
func levelNumbers(command *cobra.Command, policies *policyOfFlags) []string {
	policy, err := policies.read(command)
	if err != nil {
		return nil
	}
	var numbers []string
	for _, row := range insight.Rows(policy.Rules.Policy) {
		numbers = append(numbers, fmt.Sprintf("%d\t%s, %s", row.Level, row.Condition(), row.Load()))
	}
	return numbers
}

func (l *list) check(command *cobra.Command) error {
	byLevel := command.Flags().Changed("level")
	byCount, byLoad := command.Flags().Changed("count-below"), command.Flags().Changed("load-above")
	if l.corrupt && (byLevel || byCount || byLoad) {
		return usageError("a corrupt key has no level, no count and no load: leave out -level, -count-below and -load-above")
	}
	l.wanted = func(c insight.Listed) bool {
		if l.corrupt || c.Corrupt != "" {
			return c.Corrupt != "" && !byLevel && !byCount && !byLoad
		}
		return (!byLevel || slices.Contains(l.levels, int(c.NextLevel))) &&
			(!byCount && !byLoad || byCount && c.ByCount() && c.Count < l.below || byLoad && c.ByLoad() && c.Load > l.above)
	}
	if l.limit < 0 {
		return usageError("-limit %d is negative", l.limit)
	}
	if l.cursor != "" {
		if err := census.CheckCursor(l.cursor); err != nil {
			return usageError("-cursor: %w", err)
		}
	}
	return checkPace(l.pace)
}

func (l *list) run(command *cobra.Command, c *connection) error {
	for _, level := range l.levels {
		if last := c.LastLevel(); level < 1 || level > int(last) {
			return usageError("-level %d: the levels are 1 to %d", level, last)
		}
	}
	ctx := command.Context()
	options := census.Options{Pace: l.pace}
	if l.limit > 0 {
		options.PageKeys = min(l.limit, 500) // so that few customers beyond the limit are printed
	}
	walk, err := c.Walk(ctx, options, l.cursor)
	switch {
	case errors.Is(err, census.ErrOtherServers):
		return statusError{exitUsage, fmt.Errorf("-cursor: %w", err)}
	case err != nil:
		return c.broken(err)
	}
	err = l.print(ctx, command.OutOrStdout(), command.ErrOrStderr(), c, walk)
	if !walk.Done() {
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: there is more; go on with -cursor %s\n", walk.Cursor())
	}
	return c.broken(err)
}

func (l *list) print(ctx context.Context, out, stderr io.Writer, c *connection, walk *census.Walk) error {
	lines := &lines{out: out, asJSON: l.asJSON}
	bar := newProgress(stderr)
	defer bar.clear()
	keys, _ := walk.Keys(ctx) // without the right to DBSIZE there is no bar
	printed := 0
	for {
		entries, err := walk.Next(ctx, c.Store)
		if errors.Is(err, io.EOF) {
			return lines.end()
		}
		if err != nil {
			return err
		}
		var page []insight.Listed
		for _, entry := range entries {
			if listed := c.Listed(entry); l.wanted(listed) {
				page = append(page, listed)
			}
		}
		if len(page) > 0 {
			bar.clear()
		}
		if err := lines.print(page); err != nil {
			return err
		}
		printed += len(page)
		if l.limit > 0 && printed >= l.limit {
			return nil
		}
		if len(page) == 0 {
			walk.Widen()
		}
		if keys > 0 {
			bar.show(int(min(walk.Looked(), keys)), int(keys))
		}
	}
}

// lines prints customers, with a heading before the first, and another heading before
// the first that is counted by the other rule.
type lines struct {
	out    io.Writer
	asJSON bool
	table  table
	headed bool
}

func (l *lines) print(page []insight.Listed) error {
	before := l.table
	for _, listed := range page {
		if listed.Corrupt == "" {
			l.table.byCount = l.table.byCount || listed.ByCount()
			l.table.byLoad = l.table.byLoad || listed.ByLoad()
		}
	}
	var err error
	if len(page) > 0 && (!l.headed || l.table != before) && !l.asJSON {
		l.headed = true
		_, err = fmt.Fprintln(l.out, l.table.heading())
	}
	for _, listed := range page {
		switch {
		case err != nil:
		case l.asJSON:
			err = writeJSON(l.out, listed)
		default:
			line := l.table.line(insight.Busy{Name: listed.Name, State: listed.State})
			if strings.HasSuffix(listed.Corrupt, ":override") {
				line += ", the override"
			}
			_, err = fmt.Fprintln(l.out, line)
		}
	}
	if err != nil {
		return statusError{exitFailed, err}
	}
	return nil
}

// end says that there was no line.
func (l *lines) end() error {
	if l.headed || l.asJSON {
		return nil
	}
	_, err := fmt.Fprintln(l.out, "No such customer.")
	return err
}

// broken says that the connection to Redis was lost.
func (c *connection) broken(err error) error {
	var known statusError
	if !errors.As(err, &known) && insight.Unreachable(err) {
		return statusError{exitUnreachable, fmt.Errorf("cannot reach %s any more: %w", c.Server.Address, err)}
	}
	return err
}
