package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/gocode"
	"github.com/spf13/cobra"
)

const policyLong = `Policy prints what decides: the tables from loads and counts to levels, who set
them, why, and which workers follow. Apply sets them for the whole fleet while it
runs, in place of the workers' own options; workers follow within a second, and
queued documents keep their level.

  priorityctl policy
  priorityctl policy check team.json          the tables of a file
  priorityctl policy apply team.json -why 'fewer levels'
  priorityctl policy history
  priorityctl policy rollback 12 -why 'too slow for small customers'
  priorityctl policy withdraw -why 'back to the options'`

func newPolicy() *cobra.Command {
	var connect connectionFlags
	var asJSON bool
	command := &cobra.Command{Use: "policy", Long: policyLong}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.MustKnow(); err != nil {
			return err
		}
		out := command.OutOrStdout()
		if asJSON {
			return writeJSON(out, shownOf(c.Applied))
		}
		name := c.Name
		if c.Applied.Rules == nil {
			name = "the workers' own options decide. Redis does not know them. This is " + name
		} else {
			name += " at " + insight.Moment(c.Applied.At) + ": " + insight.Quoted(c.Applied.Why)
		}
		if lost := c.Lost(); lost != "" {
			fmt.Fprintf(out, "%s\n\n", insight.Wrap("Redis lost rules: "+lost+". Workers that know them still follow them; what is below is for the others.", 79))
		}
		fmt.Fprintln(out, insight.Wrap("Policy: "+name+".", 79))
		writeRules(out, c.Rules)
		_, err := fmt.Fprintf(out, "\n%s\n", insight.Wrap(c.Following()+".", 79))
		return err
	})
	registerJSON(command, &asJSON)
	connect.registerPolicy(command)
	connect.register(command)
	command.AddCommand(newPolicyCheck(), newPolicyApply(), newPolicyHistory(), newPolicyRollback(), newPolicyWithdraw())
	return command
}

// shown is a policy in JSON.
type shown struct {
	control.Applied
	Summary string `json:"summary"`
}

func shownOf(applied control.Applied) shown {
	applied.At = applied.At.UTC()
	s := shown{applied, "the workers' own options"}
	if applied.Rules != nil {
		s.Summary = insight.Summary(*applied.Rules)
	}
	return s
}

// writeRules writes the tables of a policy and its tiers.
func writeRules(out io.Writer, rules control.Rules) {
	writePolicy(out, rules.Policy)
	for _, tier := range slices.Sorted(maps.Keys(rules.Tiers)) {
		fmt.Fprintf(out, "\nTier: %s\n", insight.Shown(tier))
		writePolicy(out, rules.Tiers[tier])
	}
}

func writePolicy(out io.Writer, policy priority.Policy) {
	fmt.Fprint(out, "\nLEVEL  LOAD                            COUNT          A NEW CUSTOMER'S DOCUMENTS\n")
	for _, row := range insight.Rows(policy) {
		fmt.Fprintf(out, "%5d  %-30s  %-13s  %s\n", row.Level, row.Load(), row.Condition(), row.Documents())
	}
	fmt.Fprintf(out, "\nThe last row that applies gives the level.\n%s\n", insight.Resets(policy))
	if policy.Turns > 0 {
		fmt.Fprintf(out, "%s\n", insight.Wrap(insight.Turns, 79))
	}
}

func newPolicyCheck() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use: "check {FILE | - | default}", Args: arguments("a policy's file"),
		Long: `Check prints what a policy means, and the policy in Go. The exit status is 2 if it is
invalid. A file has the fields of a priority.Policy; a missing one takes the
default's value. Tiers are one more field:

  {"thresholds": [-2, -9], "tiers": {"gold": {"thresholds": [-50]}}}`,
	}
	command.RunE = func(command *cobra.Command, args []string) error {
		rules, source, err := readRules(args[0], command.InOrStdin())
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if asJSON {
			return writeJSON(out, rules)
		}
		fmt.Fprintf(out, "Policy: %s\n", source)
		writeRules(out, rules)
		_, err = fmt.Fprintf(out, "\n%s\n", gocode.Policy(rules.Policy))
		return err
	}
	registerJSON(command, &asJSON)
	return command
}

func newPolicyApply() *cobra.Command {
	return newRulesChange("apply {FILE | - | default} -why TEXT", `Apply sets the policy, and the tiers, of the whole fleet. FILE is as for policy
check, or a line of policy history -json.

  priorityctl policy apply team.json -why 'fewer levels'`, arguments("a policy's file"),
		func(_ context.Context, command *cobra.Command, _ *connection, args []string) (*control.Rules, error) {
			rules, _, err := readRules(args[0], command.InOrStdin())
			return &rules, err
		})
}

func newPolicyRollback() *cobra.Command {
	return newRulesChange("rollback VERSION -why TEXT", `Rollback applies the policy of an earlier version again.

  priorityctl policy rollback 12 -why 'too slow for small customers'`, arguments("a version of policy history"),
		func(ctx context.Context, _ *cobra.Command, c *connection, args []string) (*control.Rules, error) {
			version, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || version < 1 {
				return nil, usageError("%.40q is not a version: see policy history", args[0])
			}
			history, err := c.Admin.History(ctx)
			if err != nil {
				return nil, err
			}
			for _, earlier := range history {
				if earlier.Version == version && earlier.Rules == nil {
					return nil, usageError("version %d withdrew the policy: use policy withdraw", version)
				} else if earlier.Version == version {
					return earlier.Rules, nil
				}
			}
			return nil, fmt.Errorf("%w: version %d has no policy in policy history", control.ErrNotFound, version)
		})
}

func newPolicyWithdraw() *cobra.Command {
	return newRulesChange("withdraw -why TEXT", `Withdraw leaves the policy to the workers' own options again.

  priorityctl policy withdraw -why 'back to the options'`, arguments(),
		func(context.Context, *cobra.Command, *connection, []string) (*control.Rules, error) { return nil, nil })
}

// newRulesChange returns a command that changes the policy to what of returns; nil: it is
// withdrawn.
func newRulesChange(use, long string, args cobra.PositionalArgs,
	of func(ctx context.Context, command *cobra.Command, c *connection, args []string) (*control.Rules, error),
) *cobra.Command {
	var connect connectionFlags
	var flags changeFlags
	var yes, asJSON bool
	command := &cobra.Command{Use: use, Long: long, Args: args, DisableFlagsInUseLine: true}
	command.RunE = connected(&connect, flags.check, func(command *cobra.Command, c *connection, args []string) error {
		ctx := command.Context()
		rules, err := of(ctx, command, c, args)
		if err != nil {
			return err
		}
		replaces := c.Applied.Version
		if c.Unread != nil {
			replaces = control.AnyVersion // no one can have seen what is there
		}
		var version int64
		if rules == nil {
			version, err = c.Admin.Withdraw(ctx, replaces, flags.change(command))
		} else if err = c.mayFollow(*rules, yes); err == nil {
			version, err = c.Admin.Apply(ctx, replaces, *rules, flags.change(command))
		}
		if errors.Is(err, control.ErrConflict) {
			return fmt.Errorf("%w; nothing was changed: see priorityctl log, and decide again", err)
		} else if err != nil {
			return err
		}
		now, err := c.Await(ctx)
		if err != nil {
			return fmt.Errorf("version %d is set; who follows is unknown: %w", version, err)
		}
		if asJSON {
			return writeJSON(command.OutOrStdout(), shownOf(now.Applied))
		}
		out := command.OutOrStdout()
		fmt.Fprintln(out, insight.Wrap(fmt.Sprintf("Version %d: %s.", now.Applied.Version, shownOf(now.Applied).Summary), 79))
		indented(out, 2, now.Following()+".")
		if c.Applied.Rules != nil {
			indented(out, 2, fmt.Sprintf("Before: %s: %s; %s", c.Name, insight.Quoted(c.Applied.Why), insight.Summary(c.Rules)))
		}
		return nil
	})
	flags.register(command)
	command.Flags().BoolVar(&yes, "yes", false, "even if some workers cannot follow")
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}

// mayFollow refuses rules with more levels than a worker's queue has.
func (c *connection) mayFollow(rules control.Rules, yes bool) error {
	var names []string
	for _, w := range c.Workers {
		if w.Here && w.Levels > 0 && w.Levels < rules.Policy.Last() {
			names = append(names, fmt.Sprintf("that of %s %d", w.Called(), w.Levels))
		}
	}
	if names == nil || yes {
		return nil
	}
	return fmt.Errorf("the policy has %d levels, and a queue has fewer (%s): nothing was changed. Apply one with fewer, or start these workers with more; -yes applies it, and they keep the policy that they follow",
		rules.Policy.Last(), insight.Named(names))
}

func newPolicyHistory() *cobra.Command {
	var connect connectionFlags
	var asJSON bool
	command := &cobra.Command{
		Use:  "history",
		Long: "History lists the policies of the last 90 days, the newest first.\n\n  priorityctl policy history",
	}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		history, err := c.Admin.History(command.Context())
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if len(history) == 0 && !asJSON {
			fmt.Fprintln(out, "No policy was set in the last 90 days.")
		}
		for _, each := range history {
			s := shownOf(each)
			if asJSON {
				err = errors.Join(err, writeJSON(out, s))
				continue
			}
			now := ""
			if each.Version == c.Applied.Version {
				now = "  current"
			}
			fmt.Fprintf(out, "%7d  %s  by %s%s\n", each.Version, insight.Moment(each.At), insight.Shown(each.By), now)
			indented(out, 9, s.Summary)
			indented(out, 9, insight.Quoted(each.Why))
		}
		return err
	})
	registerJSON(command, &asJSON)
	connect.register(command)
	return command
}
