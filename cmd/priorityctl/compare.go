package main

import (
	"cmp"
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

const policyCompareLong = `Compare shows whose order changes by the policy B.
What counts is who goes before whom, not the numbers of the levels: fewer levels
make nobody faster. A and B are files as policy apply takes them, or default for
the module's policy; with Redis also current, the policy that operators have
applied.

With -redis, or with -live, it also compares all present customers, each with
all others, by the levels that their next documents get: how many move forward
or back, and between how many pairs the order is reversed, split (one level by
A, two by B) or merged. Overrides and tiers are left out: only the workers know
which tier a customer is in. It goes through the customers at a bounded pace.

  priorityctl policy compare default team.json
  priorityctl policy compare current team.json -redis redis://localhost:6379`

// compare holds the command's flags.
type compare struct {
	connect  connectionFlags
	queue    queueFlags
	live     bool
	pace     int
	examples int
	asJSON   bool
}

func newPolicyCompare() *cobra.Command {
	var f compare
	command := &cobra.Command{
		Use:     "compare A B",
		Short:   "Shows which customers B puts before or after others",
		Long:    policyCompareLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:    namedArguments("the policy A", "the policy B"),
		PreRunE: func(*cobra.Command, []string) error { return cmp.Or(checkPace(f.pace), checkExamples(f.examples)) },
	}
	onRedis := connected(&f.connect, &f.queue, func(command *cobra.Command, c *connection, names []string) error {
		if err := c.mustFollow(command); err != nil {
			return err
		}
		return f.run(command, c, names)
	})
	command.RunE = func(command *cobra.Command, names []string) error {
		if f.live || command.Flags().Changed("redis") || slices.Contains(names, "current") {
			return onRedis(command, names)
		}
		return f.run(command, nil, names)
	}
	flags := command.Flags()
	flags.BoolVar(&f.live, "live", false, "compare the live customers, in the Redis of "+urlVariable)
	flags.IntVar(&f.examples, "examples", 10, "how many of the customers who move to name")
	flags.BoolVar(&f.asJSON, "json", false, "print one JSON object")
	registerPace(command, &f.pace)
	f.queue.register(command)
	f.connect.register(command)
	return command
}

func checkExamples(examples int) error {
	if examples < 0 || examples > 1000 {
		return usageError("-examples %d is not from 0 to 1000", examples)
	}
	return nil
}

// run compares; a nil connection: without Redis.
func (f *compare) run(command *cobra.Command, c *connection, names []string) error {
	a, err := rulesNamed(command, c, names[0])
	if err != nil {
		return err
	}
	b, err := rulesNamed(command, c, names[1])
	if err != nil {
		return err
	}
	var found *insight.Compared
	if c != nil && (f.live || command.Flags().Changed("redis")) {
		if found, err = f.count(command, c, a, b); err != nil {
			return err
		}
	}
	return printComparison(command.OutOrStdout(), a, b, found, f.asJSON)
}

// rulesNamed returns the rules of a file, or those that operators have set.
func rulesNamed(command *cobra.Command, c *connection, name string) (insight.NamedRules, error) {
	switch {
	case c != nil && name == "current" && c.Settings.Rules != nil:
		return insight.NamedRules{Rules: c.Settings.Rules.Value, Name: insight.ItemName(*c.Settings.Rules)}, nil
	case c != nil && name == "current":
		current := defaultRules() // the workers' own options are unknown here
		current.Name += ": operators have applied none"
		return current, nil
	}
	return readRules(name, command.InOrStdin())
}

// count compares the live customers.
func (f *compare) count(command *cobra.Command, c *connection, a, b insight.NamedRules) (*insight.Compared, error) {
	comparison, err := insight.NewComparison(&c.Inspector, a, b, insight.ComparisonOptions{Pace: f.pace, Examples: f.examples})
	if err != nil {
		return nil, err
	}
	if _, err := comparison.Advance(command.Context(), time.Time{}); err != nil {
		return nil, c.broken(err)
	}
	found := comparison.Found()
	return &found, nil
}

// compared are two policies.
type compared struct {
	A      control.Rules     `json:"a"`
	B      control.Rules     `json:"b"`
	Counts []insight.Band    `json:"counts"`
	Loads  []insight.Band    `json:"loads"`
	Live   *insight.Compared `json:"live,omitempty"`
}

func printComparison(w io.Writer, a, b insight.NamedRules, found *insight.Compared, asJSON bool) error {
	if asJSON {
		return writeJSON(w, compared{a.Rules, b.Rules, insight.CountBands(a.Policy, b.Policy), insight.LoadBands(a.Policy, b.Policy), found})
	}
	var out strings.Builder
	fmt.Fprintf(&out, "A: %s\n   %s\nB: %s\n   %s\n", a.Name, insight.Resets(a.Policy), b.Name, insight.Resets(b.Policy))
	changes, both := make(map[insight.Change]bool), "Both"
	for _, tier := range insight.TiersOf(a.Rules, b.Rules) {
		policyA, policyB := insight.PolicyOfTier(a.Rules, tier), insight.PolicyOfTier(b.Rules, tier)
		if tier != "" {
			fmt.Fprintf(&out, "\nTier %s\n", insight.Shown(tier))
		}
		if !slices.Equal(policyA.Thresholds, policyB.Thresholds) {
			writeBands(&out, "COUNT", insight.CountBands(policyA, policyB), changes)
		}
		if !slices.Equal(policyA.Loads, policyB.Loads) {
			writeBands(&out, "LOAD", insight.LoadBands(policyA, policyB), changes)
		}
		if floodsA, floodsB := floodLevels(policyA), floodLevels(policyB); floodsA != floodsB {
			fmt.Fprintf(&out, "\nBeyond the last load, floods get %s by A, and %s by B.\n", floodsA, floodsB)
			both = "Otherwise both"
		}
	}
	out.WriteString("\n")
	if changes[insight.Merged] {
		out.WriteString("merged: one level with the row above by B, and two by A.\n")
	}
	if changes[insight.Split] {
		out.WriteString("split: one level with the row above by A, and two by B.\n")
	}
	if len(changes) == 0 {
		out.WriteString(both + " give counts and loads the same order.\n")
	}
	if insight.Reverses(a.Rules, b.Rules) {
		out.WriteString("Some customers of different tiers change places. The page of a\nserver that knows the tiers counts them.\n")
	}
	if found != nil {
		fmt.Fprintf(&out, "\n%s", found)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// floodLevels names the levels of documents beyond the last load.
func floodLevels(policy priority.Policy) string {
	first := len(policy.Loads) + 1
	if policy.Turns == 0 {
		return fmt.Sprintf("level %d", first)
	}
	return fmt.Sprintf("levels %d to %d", first, first+policy.Turns)
}

// writeBands writes the table of counts, or of loads, and collects the changes.
func writeBands(out io.Writer, heading string, bands []insight.Band, changes map[insight.Change]bool) {
	fmt.Fprintf(out, "\n%-22sA    B\n", heading)
	for _, band := range bands {
		change := ""
		if band.Change != "" {
			changes[band.Change] = true
			change = "  " + string(band.Change)
		}
		fmt.Fprintf(out, "%-18s  %3d  %3d%s\n", band.Range, band.A, band.B, change)
	}
}
