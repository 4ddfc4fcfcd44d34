package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/gocode"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const policyLong = `Policy without a command prints what the levels mean: the tables from counts and from
loads to levels, when a count is reset, and the policy as Go code. -json prints the file that -policy of
the other commands reads; missing fields take the module's defaults.

  priorityctl policy -reset-mode last-reset -json > team.json
  priorityctl policy check team.json
  priorityctl policy compare default team.json

Apply, rollback and withdraw change the policy of the whole fleet, in Redis,
while it runs. Show prints it and says who obeys, and history lists earlier
policies.

  priorityctl policy apply team.json -why 'fewer levels'
  priorityctl policy show
  priorityctl policy history
  priorityctl policy rollback 12 -why 'too slow for small customers'`

func newPolicy() *cobra.Command {
	var policies policyOfFlags
	var asJSON bool
	command := &cobra.Command{
		Use:   "policy",
		Short: "Prints, checks, compares and applies policies",
		Long:  policyLong,
		Args:  unknownCommand,
		RunE: func(command *cobra.Command, _ []string) error {
			rules, err := policies.read(command)
			if err != nil {
				return err
			}
			return printPolicy(command.OutOrStdout(), rules, asJSON)
		},
	}
	policies.register(command)
	command.Flags().BoolVar(&asJSON, "json", false, "print the policy's file")
	command.AddCommand(newPolicyCheck(), newPolicyCompare(), newPolicyShow(), newPolicyApply(), newPolicyHistory(), newPolicyRollback(), newPolicyWithdraw())
	return command
}

func printPolicy(w io.Writer, rules insight.NamedRules, asJSON bool) error {
	if asJSON {
		return writeJSON(w, rules.Rules)
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Policy: %s\n", rules.Name)
	writePolicy(&out, rules.Policy)
	for _, tier := range slices.Sorted(maps.Keys(rules.Tiers)) {
		fmt.Fprintf(&out, "\nTier: %s\n", insight.Shown(tier))
		writePolicy(&out, rules.Tiers[tier])
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func writePolicy(out io.Writer, policy priority.Policy) {
	fmt.Fprint(out, "\nLEVEL  LOAD                            COUNT          A NEW CUSTOMER'S DOCUMENTS\n")
	for _, row := range insight.Rows(policy) {
		fmt.Fprintf(out, "%5d  %-30s  %-13s  %s\n", row.Level, row.Load(), row.Condition(), row.Documents())
	}
	fmt.Fprintf(out, "\nThe last row that holds gives the level.\n%s\n", insight.Resets(policy))
	if policy.Turns > 0 {
		fmt.Fprintf(out, "%s\n", insight.Wrap(insight.Turns, 79))
	}
	fmt.Fprintf(out, "\n%s\n", gocode.Policy(policy))
}

func newPolicyCheck() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "check FILE…",
		Short: "Checks whether files hold valid policies",
		Long:  "Check says of each file whether it holds a valid policy. The\nexit status is 2 if one does not.",
		Args: func(_ *cobra.Command, files []string) error {
			if len(files) == 0 {
				return errors.New("name a file")
			}
			return nil
		},
		RunE: func(command *cobra.Command, files []string) error {
			bad := 0
			for _, file := range files {
				rules, err := readRules(file, command.InOrStdin())
				if err != nil {
					bad++
				}
				if err := printCheck(command, file, rules, err, asJSON); err != nil {
					return err
				}
			}
			if bad > 0 {
				return statusError{exitUsage, nil}
			}
			return nil
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a file")
	return command
}

// checkedFile is the result for a policy's file.
type checkedFile struct {
	File   string         `json:"file"`
	OK     bool           `json:"ok"`
	Policy *control.Rules `json:"policy,omitempty"`
	Error  string         `json:"error,omitempty"`
}

func printCheck(command *cobra.Command, file string, rules insight.NamedRules, failure error, asJSON bool) error {
	out := command.OutOrStdout()
	switch {
	case asJSON && failure != nil:
		return writeJSON(out, checkedFile{File: file, Error: insight.OneLine(failure)})
	case asJSON:
		return writeJSON(out, checkedFile{File: file, OK: true, Policy: &rules.Rules})
	case failure != nil:
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", insight.OneLine(failure))
		return nil
	}
	_, err := fmt.Fprintf(out, "%s: ok, %s\n", file, checked(rules))
	warnOfHarsh(command, rules)
	return err
}

// checked says how large rules are.
func checked(rules insight.NamedRules) string {
	text := insight.Plural(int64(rules.Policy.Last()), "level")
	if n := len(rules.Tiers); n > 0 {
		text += ", " + insight.Plural(int64(n), "tier")
	}
	return text
}
