package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

var policyApplyLong = `Apply sets the policy, and the tiers, of the whole fleet, in place of the
workers' own options. FILE is what policy -json prints, or the JSON of any
command that contains a policy, such as the laboratory's tune; - is standard
input. A file may have tiers:

  {"thresholds": [-2, -9], "tiers": {"gold": {"thresholds": [-50]}}}

It may not have more levels than the queue was declared with: see -levels.

  priorityctl policy apply team.json -why 'fewer levels'

` + changeHelp

func newPolicyApply() *cobra.Command {
	return newRulesChange(rulesChange{
		use: "apply {FILE | - | default} -why TEXT", short: "Applies a policy to the whole fleet", long: policyApplyLong,
		args: namedArguments("the policy's file, or default"), completeFiles: true,
		do: func(ctx context.Context, command *cobra.Command, c *connection, args []string, change control.Change) (int64, *control.Rules, error) {
			rules, err := readRules(args[0], command.InOrStdin())
			if err != nil {
				return 0, nil, err
			}
			warnOfHarsh(command, rules)
			version, err := c.Admin.Apply(ctx, rules.Rules, change)
			return version, &rules.Rules, err
		},
	})
}

// warnOfHarsh says which rules are probably a mistake.
func warnOfHarsh(command *cobra.Command, rules insight.NamedRules) {
	if harsh := insight.Harsh(rules.Rules); harsh != "" {
		fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s: %s\n", rules.Name, harsh)
	}
}

func newPolicyRollback() *cobra.Command {
	return newRulesChange(rulesChange{
		use: "rollback VERSION -why TEXT", short: "Applies an earlier policy again",
		long: "Rollback applies the policy of a version of policy history again. If it holds already, nothing is changed.\n\n" + changeHelp,
		args: namedArguments("a version of policy history"),
		do: func(ctx context.Context, _ *cobra.Command, c *connection, args []string, change control.Change) (int64, *control.Rules, error) {
			earlier, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil || earlier < 1 {
				return 0, nil, usageError("%.40q is not a version: see policy history", args[0])
			}
			history, err := c.Admin.History(ctx)
			if err != nil {
				return 0, nil, err
			}
			for _, item := range history {
				if item.Version == earlier {
					settings, err := c.Admin.Settings(ctx)
					if now := settings.Rules; err == nil && now != nil && insight.SameRules(now.Value, item.Value) {
						return now.Version, &now.Value, errHolds
					}
					version, err := c.Admin.Apply(ctx, item.Value, change)
					return version, &item.Value, err
				}
			}
			return 0, nil, statusError{exitFailed, fmt.Errorf("there is no version %d in policy history", earlier)}
		},
	})
}

// errHolds: the rules are those that hold already.
var errHolds = errors.New("they hold already")

func newPolicyWithdraw() *cobra.Command {
	return newRulesChange(rulesChange{
		use: "withdraw -why TEXT", short: "Leaves the policy to the workers' own options again",
		long: "Withdraw leaves the policy to the workers' own options again.\n\n" + changeHelp,
		args: cobra.NoArgs,
		do: func(ctx context.Context, _ *cobra.Command, c *connection, _ []string, change control.Change) (int64, *control.Rules, error) {
			version, err := c.Admin.Withdraw(ctx, change)
			return version, nil, err
		},
	})
}

// rulesChange is a command that changes the policy.
type rulesChange struct {
	use, short, long string
	args             cobra.PositionalArgs
	completeFiles    bool

	// do makes the change, and returns its version and the rules; nil: they were withdrawn.
	do func(ctx context.Context, command *cobra.Command, c *connection, args []string, change control.Change) (int64, *control.Rules, error)
}

func newRulesChange(r rulesChange) *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var flags changeFlags
	var asJSON bool
	command := &cobra.Command{
		Use:     r.use,
		Short:   r.short,
		Long:    r.long + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:    r.args,
		PreRunE: func(*cobra.Command, []string) error { return flags.checkWhy() },
	}
	if r.completeFiles {
		command.ValidArgsFunction = cobra.FixedCompletions([]string{"json"}, cobra.ShellCompDirectiveFilterFileExt)
	} else {
		command.ValidArgsFunction = cobra.NoFileCompletions
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		ctx := command.Context()
		if err := c.fit(command, &queue); err != nil {
			return err
		}
		settings, err := c.Admin.Settings(ctx)
		if err != nil {
			return c.broken(c.readable(err))
		}
		version, rules, err := r.do(ctx, command, c, args, flags.change(command, versionOf(settings.Rules)))
		holds := errors.Is(err, errHolds)
		if err != nil && !holds {
			return c.orLost(command, explained(ctx, c, err, "policy", ""))
		}
		changed := rulesChanged{Version: version, Rules: rules, holds: holds}
		if settings.Rules != nil && !holds {
			set := insight.SetRulesOf(*settings.Rules, false)
			changed.Replaced = &set
		}
		changed.Obey = c.AwaitRules(ctx, version, policyOf(rules))
		if asJSON {
			return writeJSON(command.OutOrStdout(), changed)
		}
		_, err = fmt.Fprintln(command.OutOrStdout(), changed)
		return err
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	flags.register(command)
	queue.register(command)
	connect.register(command)
	return command
}

// policyOf returns the policy of rules, nil for nil.
func policyOf(rules *control.Rules) *priority.Policy {
	if rules == nil {
		return nil
	}
	return &rules.Policy
}

// rulesChanged is a policy that was set or ended, and the one before.
type rulesChanged struct {
	Version  int64             `json:"version"`
	Rules    *control.Rules    `json:"policy"`   // null: it was withdrawn
	Replaced *insight.SetRules `json:"replaced"` // null: there was no policy, or nothing was changed
	Obey     insight.Obedience `json:"obey"`

	holds bool // it held already
}

// String is what a person reads.
func (r rulesChanged) String() string {
	now := "the workers' own options decide again"
	switch {
	case r.holds:
		now = "which holds, has these rules, so nothing was changed: " + insight.RulesSummary(*r.Rules)
	case r.Rules != nil:
		now = "applied: " + insight.RulesSummary(*r.Rules)
	}
	text := insight.Wrap(fmt.Sprintf("Version %d, %s.", r.Version, now), 79)
	further := func(more string) { text += "\n  " + strings.ReplaceAll(insight.Wrap(more, 77), "\n", "\n  ") }
	further(r.Obey.String())
	if b := r.Replaced; b != nil {
		further(fmt.Sprintf("before: version %d, %s, by %s at %s: %s", b.Version, insight.RulesSummary(b.Rules), insight.Shown(b.By), insight.Moment(b.At), insight.Quoted(b.Why)))
	}
	return text
}

func newPolicyHistory() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "history",
		Short:             "Lists the fleet's policies, the newest first",
		Long:              "History lists the policies that operators have applied, the newest first. The last\n100 are kept.\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		settings, err := c.Admin.Settings(command.Context())
		if err != nil {
			return c.broken(c.readable(err))
		}
		all, err := c.History(command.Context())
		if err != nil {
			return c.broken(err)
		}
		for i := range all {
			all[i].Current = all[i].Version == versionOf(settings.Rules)
		}
		c.warnOfLoss(command)
		return printHistory(command.OutOrStdout(), all, asJSON)
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a policy")
	queue.register(command)
	connect.register(command)
	return command
}

func printHistory(w io.Writer, all []insight.SetRules, asJSON bool) error {
	if asJSON {
		return writeAll(w, all)
	}
	var out strings.Builder
	if len(all) == 0 {
		out.WriteString("No policy was applied: the workers' own options decide.\n")
	}
	for _, r := range all {
		now := ""
		if r.Current {
			now = "  current"
		}
		fmt.Fprintf(&out, "%7d  %s  by %s%s\n", r.Version, insight.Moment(r.At), insight.Shown(r.By), now)
		summary := insight.RulesSummary(r.Rules)
		if r.SameAs > 0 {
			summary += fmt.Sprintf("; as version %d", r.SameAs)
		}
		indented(&out, 9, summary)
		indented(&out, 9, insight.Quoted(r.Why))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
