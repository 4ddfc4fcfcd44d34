package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
	"github.com/docpriority/priority/page/insight"
	"github.com/spf13/cobra"
)

const policyLong = `Policy prints what the levels mean: the table from counts to levels, when a count
starts afresh, and the policy as Go code. -json prints the file that -policy of
the other commands reads; what the file leaves out is the module's default.

  priorityctl policy -reset-mode last-reset -json > team.json
  priorityctl policy check team.json
  priorityctl policy compare default team.json`

func newPolicy() *cobra.Command {
	var policies policyOfFlags
	var asJSON bool
	command := &cobra.Command{
		Use:   "policy",
		Short: "Prints, checks and compares policies; needs no Redis",
		Long:  policyLong,
		Args:  unknownCommand,
		RunE: func(command *cobra.Command, _ []string) error {
			policy, err := policies.read(command)
			if err != nil {
				return err
			}
			return printPolicy(command.OutOrStdout(), policy, asJSON)
		},
	}
	policies.register(command)
	command.Flags().BoolVar(&asJSON, "json", false, "print the policy's file")
	command.AddCommand(newPolicyCheck(), newPolicyCompare())
	return command
}

func printPolicy(w io.Writer, policy insight.NamedPolicy, asJSON bool) error {
	if asJSON {
		return writeJSON(w, insight.PolicyJSONOf(policy.Policy))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Policy: %s\n\nLEVEL  COUNT              A NEW CUSTOMER'S DOCUMENTS\n", policy.Name)
	for _, row := range insight.Rows(policy.Policy) {
		fmt.Fprintf(&out, "%5d  %-17s  %s\n", row.Level, row.Condition(), row.Documents())
	}
	fmt.Fprintf(&out, "\nThe last row that holds gives the level.\n%s\n\n%s\n", insight.Afresh(policy.Policy), report.GoCode(policy.Policy))
	_, err := io.WriteString(w, out.String())
	return err
}

func newPolicyCheck() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "check FILE…",
		Short: "Tells whether files hold policies that the module takes",
		Long:  "Check tells of each file whether it holds a policy that the module takes. The\nexit status is 2 if one does not.",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, files []string) error {
			bad := 0
			for _, file := range files {
				policy, err := readPolicy(file)
				if err != nil {
					bad++
				}
				if err := printCheck(command, file, policy, err, asJSON); err != nil {
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

func printCheck(command *cobra.Command, file string, policy insight.NamedPolicy, failure error, asJSON bool) error {
	out := command.OutOrStdout()
	switch {
	case asJSON && failure != nil:
		return writeJSON(out, map[string]any{"file": file, "ok": false, "error": insight.OneLine(failure)})
	case asJSON:
		return writeJSON(out, map[string]any{"file": file, "ok": true, "policy": insight.PolicyJSONOf(policy.Policy)})
	case failure != nil:
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", insight.OneLine(failure))
		return nil
	}
	_, err := fmt.Fprintf(out, "%s: ok, %s\n", file, insight.Plural(int64(policy.Last()), "level"))
	return err
}

func newPolicyCompare() *cobra.Command {
	var asJSON bool
	command := &cobra.Command{
		Use:   "compare A B",
		Short: "Shows which counts get another level by B than by A",
		Long:  "Compare shows which counts get another level by the policy B than by A. Each is a\nfile, or default for the module's policy.",
		Args:  cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, files []string) error {
			a, err := readPolicy(files[0])
			if err != nil {
				return err
			}
			b, err := readPolicy(files[1])
			if err != nil {
				return err
			}
			return printComparison(command.OutOrStdout(), a, b, asJSON)
		},
	}
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return command
}

func printComparison(w io.Writer, a, b insight.NamedPolicy, asJSON bool) error {
	all := insight.Bands(a.Policy, b.Policy)
	if asJSON {
		return writeJSON(w, map[string]any{"a": insight.PolicyJSONOf(a.Policy), "b": insight.PolicyJSONOf(b.Policy), "counts": all})
	}
	var out strings.Builder
	fmt.Fprintf(&out, "A: %s\n   %s\nB: %s\n   %s\n\nCOUNT               A    B\n", a.Name, insight.Afresh(a.Policy), b.Name, insight.Afresh(b.Policy))
	same := true
	for _, band := range all {
		change := ""
		if band.A != band.B {
			same = false
			change = fmt.Sprintf("  %+d", band.B-band.A)
		}
		fmt.Fprintf(&out, "%-16s  %3d  %3d%s\n", band.Counts(), band.A, band.B, change)
	}
	if same {
		out.WriteString("\nEvery count has the same level by both.\n")
	} else {
		out.WriteString("\n+: B processes it later. -: B processes it earlier.\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
