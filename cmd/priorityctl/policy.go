package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
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
	command := &cobra.Command{Use: "policy", Long: policyLong}
	command.AddCommand(newPolicyCheck(), newPolicyApply(), newPolicyHistory(), newPolicyRollback(), newPolicyWithdraw())
	registerJSON(command)
	registerPolicy(command)
	return looking(command, nil, func(c *call, s *insight.Snapshot, _ []string) error {
		if s.PoliciesErr != nil {
			return fmt.Errorf("what operators have set cannot be read: %w", s.PoliciesErr)
		}
		if c.asJSON {
			return writeJSON(c.out, summarized(s.Applied))
		}
		source := "the workers' own options decide. Redis does not know them. This is " + s.Source
		if s.Applied.Policies != nil {
			source = s.Source + " at " + insight.Moment(s.Applied.At) + ": " + insight.Quoted(s.Applied.Why)
		}
		if lost := s.Lost(); lost != "" {
			fmt.Fprintf(c.out, "%s\n\n", insight.Wrap(lost+". Workers that know them still follow them; what is below is for the others.", 79))
		}
		fmt.Fprintln(c.out, insight.Wrap("Policy: "+source+".", 79))
		writePolicies(c.out, s.Policies)
		_, err := fmt.Fprintf(c.out, "\n%s\n", insight.Wrap(s.Following()+".", 79))
		return err
	})
}

// summary is policies in JSON, and what they are in words.
type summary struct {
	control.Applied
	Summary string `json:"summary"`
}

func summarized(applied control.Applied) summary {
	applied.At = applied.At.UTC()
	if applied.Policies == nil {
		return summary{applied, "the workers' own options"}
	}
	return summary{applied, insight.Summary(*applied.Policies)}
}

// writePolicies writes the tables of a policy and its tiers.
func writePolicies(out io.Writer, policies priority.Policies) {
	writePolicy(out, policies.Policy)
	for _, tier := range slices.Sorted(maps.Keys(policies.Tiers)) {
		fmt.Fprintf(out, "\nTier: %s\n", insight.Shown(tier))
		writePolicy(out, policies.Tiers[tier])
	}
}

func writePolicy(out io.Writer, policy priority.Policy) {
	fmt.Fprint(out, "\nLEVEL  LOAD                            COUNT          DOCUMENTS BY COUNT\n")
	for _, row := range insight.Rows(policy) {
		fmt.Fprintf(out, "%5d  %-30s  %-13s  %s\n", row.Level, row.Load(), row.Condition(), row.Documents())
	}
	fmt.Fprintf(out, "\nThe last column is of a new customer's documents, by count. Of several rows that\napply, the one furthest down decides.\n%s\n", insight.Resets(policy))
	if policy.Turns > 0 {
		fmt.Fprintf(out, "%s\n", insight.Wrap(insight.Turns, 79))
	}
	if policy.InOrder {
		fmt.Fprintln(out, insight.InOrder)
	}
}

func newPolicyCheck() *cobra.Command {
	command := &cobra.Command{
		Use: "check {FILE | - | default}", Args: cobra.ExactArgs(1),
		Long: `Check prints what a policy means, and the policy in Go. The exit status is 2 if it is
invalid. A file has the fields of a priority.Policy; a missing one takes the
default's value. Tiers are one more field:

  {"thresholds": [-2, -9], "in_order": true, "tiers": {"gold": {"thresholds": [-50]}}}`,
	}
	registerJSON(command)
	command.RunE = func(command *cobra.Command, args []string) error {
		policies, source, err := readPolicies(args[0], command.InOrStdin())
		if err != nil {
			return err
		}
		out := command.OutOrStdout()
		if asJSON, _ := command.Flags().GetBool("json"); asJSON {
			return writeJSON(out, policies)
		}
		fmt.Fprintf(out, "Policy: %s\n", source)
		writePolicies(out, policies)
		_, err = fmt.Fprintf(out, "\n%#v\n", policies.Policy)
		return err
	}
	return command
}

func newPolicyApply() *cobra.Command {
	return newPolicyChange("apply {FILE | - | default} -why TEXT", `Apply sets the policy, and the tiers, of the whole fleet. FILE is as for policy
check, or a line of policy history -json.

  priorityctl policy apply team.json -why 'fewer levels'`, cobra.ExactArgs(1),
		func(c *call, args []string) (*priority.Policies, error) {
			policies, _, err := readPolicies(args[0], c.command.InOrStdin())
			return &policies, err
		})
}

func newPolicyRollback() *cobra.Command {
	return newPolicyChange("rollback VERSION -why TEXT", `Rollback applies the policies of an earlier version again.

  priorityctl policy rollback 12 -why 'too slow for small customers'`, cobra.ExactArgs(1),
		func(c *call, args []string) (*priority.Policies, error) {
			version, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || version < 1 {
				return nil, usageError("%.40q is not a version: see policy history", args[0])
			}
			history, err := c.Admin.History(c.ctx())
			if err != nil {
				return nil, err
			}
			at := slices.IndexFunc(history, func(applied control.Applied) bool { return applied.Version == version })
			switch {
			case at < 0:
				return nil, fmt.Errorf("%w: version %d has no policy in policy history", control.ErrNotFound, version)
			case history[at].Policies == nil:
				return nil, usageError("version %d withdrew the policies: use policy withdraw", version)
			}
			return history[at].Policies, nil
		})
}

func newPolicyWithdraw() *cobra.Command {
	return newPolicyChange("withdraw -why TEXT", `Withdraw leaves the policy to the workers' own options again.

  priorityctl policy withdraw -why 'back to the options'`, nil,
		func(*call, []string) (*priority.Policies, error) { return nil, nil })
}

// newPolicyChange returns a command that sets the policies that choose returns; nil: it
// withdraws them.
func newPolicyChange(use, long string, args cobra.PositionalArgs, choose func(c *call, args []string) (*priority.Policies, error)) *cobra.Command {
	var flags changeFlags
	command := &cobra.Command{Use: use, Long: long, Args: args, DisableFlagsInUseLine: true}
	flags.register(command)
	yes := command.Flags().Bool("yes", false, "even if some workers cannot follow")
	registerJSON(command)
	return looking(command, flags.check, func(c *call, before *insight.Snapshot, args []string) error {
		policies, err := choose(c, args)
		if err == nil && policies != nil && !*yes {
			err = mayFollow(before, *policies)
		}
		if err != nil {
			return err
		}
		version, err := c.setPolicies(before, policies, flags.change(c))
		if errors.Is(err, control.ErrConflict) {
			return fmt.Errorf("%w; nothing was changed: see priorityctl log, and decide again", err)
		} else if err != nil {
			return err
		}
		after, err := c.Await(c.ctx())
		if err != nil {
			return fmt.Errorf("version %d is set; who follows is unknown: %w", version, err)
		}
		applied := summarized(after.Applied)
		if c.asJSON {
			return writeJSON(c.out, applied)
		}
		fmt.Fprintln(c.out, insight.Wrap(fmt.Sprintf("Version %d: %s.", applied.Version, applied.Summary), 79))
		indented(c.out, 2, after.Following()+".")
		if before.Applied.Policies != nil {
			indented(c.out, 2, fmt.Sprintf("Before: %s: %s; %s", before.Source, insight.Quoted(before.Applied.Why), insight.Summary(before.Policies)))
		}
		return nil
	})
}

// setPolicies sets or withdraws the policies, in place of those that were seen. If they could
// not be read, no one can have seen them, and any are replaced.
func (c *call) setPolicies(seen *insight.Snapshot, policies *priority.Policies, change control.Change) (version int64, err error) {
	replaces := seen.Applied.Version
	switch {
	case insight.Unreachable(seen.PoliciesErr):
		return 0, seen.PoliciesErr
	case seen.PoliciesErr != nil:
		replaces = control.AnyVersion
	}
	if policies == nil {
		return c.Admin.Withdraw(c.ctx(), replaces, change)
	}
	return c.Admin.Apply(c.ctx(), replaces, *policies, change)
}

// mayFollow refuses policies with more levels than a worker's queue has.
func mayFollow(s *insight.Snapshot, policies priority.Policies) error {
	if s.ReportsErr != nil {
		return fmt.Errorf("who can follow is not known: nothing was changed, -yes applies it: %w", s.ReportsErr)
	}
	var names []string
	for _, w := range s.Workers {
		if w.Here && w.Levels > 0 && w.Levels < policies.Policy.Last() {
			names = append(names, fmt.Sprintf("that of %s %d", w.Called(), w.Levels))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("the policy has %d levels, and a queue has fewer (%s): nothing was changed. Apply one with fewer, or start these workers with more; -yes applies it, and they keep the policy that they follow",
		policies.Policy.Last(), insight.Named(names))
}

func newPolicyHistory() *cobra.Command {
	command := &cobra.Command{
		Use:  "history",
		Long: "History lists the policies of the last 90 days, the newest first.\n\n  priorityctl policy history",
	}
	registerJSON(command)
	return connected(command, nil, func(c *call, _ []string) error {
		history, err := c.Admin.History(c.ctx())
		if err != nil {
			return err
		}
		if len(history) == 0 && !c.asJSON {
			fmt.Fprintln(c.out, "No policy was set in the last 90 days.")
		}
		for _, applied := range history {
			s := summarized(applied)
			if c.asJSON {
				err = errors.Join(err, writeJSON(c.out, s))
				continue
			}
			fmt.Fprintf(c.out, "%7d  %s  by %s\n", s.Version, insight.Moment(s.At), insight.Shown(s.By))
			indented(c.out, 9, s.Summary)
			indented(c.out, 9, insight.Quoted(s.Why))
		}
		return err
	})
}
