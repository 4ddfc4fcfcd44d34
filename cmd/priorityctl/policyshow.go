package main

import (
	"fmt"
	"io"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const policyShowLong = `Show prints the policy that operators have applied, who did it and why, and which
workers obey it, by their reports.`

// policyShown is the fleet's policy.
type policyShown struct {
	*insight.SetRules                   // missing: operators have applied no policy
	Obey              insight.Obedience `json:"obey"`
	kept              string            // the rules that workers follow and Redis lost
}

func newPolicyShow() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "show",
		Short:             "Prints the fleet's policy, and who obeys it",
		Long:              policyShowLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.fit(command, &queue); err != nil {
			return err
		}
		settings, err := c.Admin.Settings(command.Context())
		if err != nil {
			return c.broken(c.readable(err))
		}
		var shown policyShown
		var version int64
		var policy *priority.Policy
		if rules := settings.Rules; rules != nil {
			set := insight.SetRulesOf(*rules, true)
			shown.SetRules, version, policy = &set, rules.Version, &rules.Value.Policy
		}
		shown.kept = c.Kept(c.reports)
		if shown.Obey, _ = insight.ObeyRules(c.reports, version, policy); c.unreported != nil {
			shown.Obey = insight.Obedience{Error: insight.OneLine(c.Hidden(c.unreported))}
		}
		return printShown(command.OutOrStdout(), shown, asJSON)
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	queue.register(command)
	connect.register(command)
	return command
}

func printShown(w io.Writer, shown policyShown, asJSON bool) error {
	if asJSON {
		return writeJSON(w, shown)
	}
	if shown.SetRules == nil {
		says := "Operators have applied no policy: the workers' own options decide; "
		if shown.kept != "" {
			says = "Workers follow " + shown.kept + "; "
		}
		_, err := fmt.Fprintf(w, "%s\n", insight.Wrap(says+shown.Obey.Who()+".", 79))
		return err
	}
	set := shown.SetRules
	name := fmt.Sprintf("version %d, by %s at %s: %s", set.Version, insight.Shown(set.By), insight.Moment(set.At), insight.Quoted(set.Why))
	if err := printPolicy(w, insight.NamedRules{Rules: set.Rules, Name: name}, false); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%s\n", insight.Wrap(shown.Obey.String(), 79))
	return err
}
