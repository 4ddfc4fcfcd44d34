package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const topLong = `Top shows how many customers each level has, and the busiest ones: live on a
terminal, until q or Ctrl-C; once anywhere else. A customer is at the level of a
document that arrives now, by the rule that the customer is counted by. The
busiest have the last levels, the highest loads and the lowest counts.
` + followHelp + `

It goes through all customers by SCAN, at a bounded pace, again and again. DOCUMENTS
are those counted by count since the pass before, and in the first pass those since
each customer's last reset. PENDING are those of customers counted by load. A pass over more keys than -pace allows in -interval takes
longer, and the screen says how far it is.`

func newTop() *cobra.Command {
	var connect connectionFlags
	var policies policyOfFlags
	var interval time.Duration
	var pace, busiest int
	var once, asJSON bool
	command := &cobra.Command{
		Use:               "top",
		Short:             "Shows the levels and the busiest customers, live",
		Long:              topLong + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(*cobra.Command, []string) error {
			if interval < 100*time.Millisecond {
				return usageError("-interval %v is less than 100ms", interval)
			}
			if busiest < 0 || busiest > 1000 {
				return usageError("-customers %d is not from 0 to 1000", busiest)
			}
			return checkPace(pace)
		},
	}
	command.RunE = connected(&connect, &policies, func(command *cobra.Command, c *connection, _ []string) error {
		t := top{c, insight.NewSurvey(insight.SurveyOptions{Pace: pace, Busiest: busiest}), &fleet{inspector: &c.Inspector}}
		if !once && !asJSON && isTerminal(command.OutOrStdout()) {
			return t.live(command, interval)
		}
		return t.once(command, asJSON)
	})
	flags := command.Flags()
	flags.DurationVar(&interval, "interval", 2*time.Second, "how often to look, at most")
	flags.IntVar(&busiest, "customers", 10, "how many of the busiest customers to show")
	flags.BoolVar(&once, "once", false, "print one pass, even on a terminal")
	flags.BoolVar(&asJSON, "json", false, "print one pass as one JSON object")
	registerPace(command, &pace)
	connect.register(command)
	policies.register(command)
	return command
}

// top is what the command looks at.
type top struct {
	*connection
	survey *insight.Survey
	now    *fleet
}

// fleet is what operators have set, as it was known last.
type fleet struct {
	inspector *insight.Inspector
	failed    error // why it is not known now
}

// advance goes on with the pass, by what operators have set now.
func (t top) advance(ctx context.Context, deadline time.Time) error {
	followed, err := t.now.inspector.Follow(ctx)
	if t.now.failed = t.Hidden(err); err == nil {
		t.now.inspector = followed
	}
	_, err = t.survey.Advance(ctx, t.now.inspector, deadline)
	return err
}

// once prints one pass.
func (t top) once(command *cobra.Command, asJSON bool) error {
	out := command.OutOrStdout()
	if err := t.follow(command); err != nil {
		return err
	}
	if err := t.advance(command.Context(), time.Time{}); err != nil {
		return t.broken(err)
	}
	if asJSON {
		return writeJSON(out, t.survey.Last())
	}
	drawing := t.drawing()
	drawing.width = 80
	_, err := io.WriteString(out, drawing.text())
	return err
}

// title says what is looked at.
func (t top) title() string {
	return fmt.Sprintf("%s  prefix %s  policy %s", t.Server.Address, insight.Shown(t.Prefix), t.now.inspector.Policy.Name)
}
