package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/report"
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

func printPolicy(w io.Writer, policy namedPolicy, asJSON bool) error {
	if asJSON {
		return writeJSON(w, jsonOf(policy.Policy))
	}
	var out strings.Builder
	fmt.Fprintf(&out, "Policy: %s\n\nLEVEL  COUNT              A NEW CUSTOMER'S DOCUMENTS\n", policy.Name)
	for _, row := range rows(policy.Policy) {
		fmt.Fprintf(&out, "%5d  %-17s  %s\n", row.level, row.condition(), row.documents())
	}
	fmt.Fprintf(&out, "\nThe last row that holds gives the level.\n%s\n\n%s\n", afresh(policy.Policy), report.GoCode(policy.Policy))
	_, err := io.WriteString(w, out.String())
	return err
}

// afresh says when a count starts afresh.
func afresh(policy priority.Policy) string {
	since := "the customer's last document"
	if policy.ResetMode == priority.SinceLastReset {
		since = "it did so last"
	}
	return fmt.Sprintf("A count starts afresh more than %s after %s.", span(policy.ResetInterval), since)
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

func printCheck(command *cobra.Command, file string, policy namedPolicy, failure error, asJSON bool) error {
	out := command.OutOrStdout()
	switch {
	case asJSON && failure != nil:
		return writeJSON(out, map[string]any{"file": file, "ok": false, "error": oneLine(failure)})
	case asJSON:
		return writeJSON(out, map[string]any{"file": file, "ok": true, "policy": jsonOf(policy.Policy)})
	case failure != nil:
		fmt.Fprintln(command.ErrOrStderr(), "priorityctl:", oneLine(failure))
		return nil
	}
	_, err := fmt.Fprintf(out, "%s: ok, %s\n", file, plural(int64(policy.Last()), "level"))
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

// band is a range of counts within which neither of two policies changes its
// level.
type band struct {
	From *int64         `json:"from"` // null: whatever is above
	To   *int64         `json:"to"`   // null: whatever is below
	A    priority.Level `json:"a"`
	B    priority.Level `json:"b"`
}

func bands(a, b priority.Policy) []band {
	edges := slices.Concat(a.Thresholds, b.Thresholds)
	slices.Sort(edges)
	edges = slices.Compact(edges)
	slices.Reverse(edges)
	var all []band
	from := (*int64)(nil)
	for _, edge := range edges {
		all = append(all, band{from, &edge, a.Level(edge), b.Level(edge)})
		next := edge - 1
		from = &next
	}
	return append(all, band{from, nil, a.Last(), b.Last()})
}

// counts writes the range from the top down, as counts fall.
func (b band) counts() string {
	switch {
	case b.From == nil && b.To == nil:
		return "any count"
	case b.From == nil:
		return fmt.Sprintf("≥ %d", *b.To)
	case b.To == nil:
		return fmt.Sprintf("≤ %d", *b.From)
	case *b.From == *b.To:
		return fmt.Sprint(*b.To)
	}
	return fmt.Sprintf("%d to %d", *b.From, *b.To)
}

func printComparison(w io.Writer, a, b namedPolicy, asJSON bool) error {
	all := bands(a.Policy, b.Policy)
	if asJSON {
		return writeJSON(w, map[string]any{"a": jsonOf(a.Policy), "b": jsonOf(b.Policy), "counts": all})
	}
	var out strings.Builder
	fmt.Fprintf(&out, "A: %s\n   %s\nB: %s\n   %s\n\nCOUNT               A    B\n", a.Name, afresh(a.Policy), b.Name, afresh(b.Policy))
	same := true
	for _, band := range all {
		change := ""
		if band.A != band.B {
			same = false
			change = fmt.Sprintf("  %+d", band.B-band.A)
		}
		fmt.Fprintf(&out, "%-16s  %3d  %3d%s\n", band.counts(), band.A, band.B, change)
	}
	if same {
		out.WriteString("\nEvery count has the same level by both.\n")
	} else {
		out.WriteString("\n+: B processes it later. -: B processes it earlier.\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// MarshalJSON makes a policy's null thresholds an empty list: null would stand
// for the default.
func (p policyJSON) MarshalJSON() ([]byte, error) {
	type plain policyJSON
	if p.Thresholds == nil {
		p.Thresholds = []int64{}
	}
	return json.Marshal(plain(p))
}
