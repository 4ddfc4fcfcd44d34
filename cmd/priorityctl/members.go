package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/docpriority/priority/page/insight"
	"github.com/spf13/cobra"
)

const membersLong = `Members says which tier customers are in, whatever the workers' own TierOf
says. A tier's policy is in the file that policy apply takes. A customer of a
tier that is not there has the policy of those without one.

  priorityctl members set acme gold -why 'their contract'
  priorityctl members list
  priorityctl members end acme -why 'it has ended'`

func newMembers() *cobra.Command {
	command := &cobra.Command{
		Use:   "members",
		Short: "Puts customers into tiers",
		Long:  membersLong,
		Args:  unknownCommand,
		RunE:  func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(newMembersSet(), newMembersList(), newMembersEnd())
	return command
}

// memberChanged is a customer whose tier was set or ended.
type memberChanged struct {
	insight.Name
	Version  int64           `json:"version"`
	Tier     *string         `json:"tier"`     // null: that of the workers' own TierOf again
	Replaced *insight.Member `json:"replaced"` // null: there was none
}

// String is what a person reads.
func (m memberChanged) String() string {
	text := insight.Shown(m.Exact()) + ": the tier is up to the workers' own options again"
	if m.Tier != nil {
		text = fmt.Sprintf("%s: tier %s", insight.Shown(m.Exact()), tierName(*m.Tier))
	}
	text += fmt.Sprintf(" (version %d)", m.Version)
	if r := m.Replaced; r != nil {
		was := fmt.Sprintf("before: tier %s, by %s: %s (version %d)", tierName(r.Tier.Tier), insight.Shown(r.By), insight.Quoted(r.Why), r.Version)
		text += "\n  " + strings.ReplaceAll(insight.Wrap(was, 77), "\n", "\n  ")
	}
	return text
}

func tierName(tier string) string {
	if tier == "" {
		return "none"
	}
	return insight.Shown(tier)
}

func newMembersSet() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var flags changeFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use:   "set {CUSTOMER TIER | -from FILE [TIER]} -why TEXT",
		Short: "Puts customers into a tier",
		Long: "Set puts a customer into a tier. With -from it takes the JSON of any command\nthat names customers: of members list each into its tier, or all into the one\nnamed.\n\n" +
			changeHelp + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE: func(_ *cobra.Command, args []string) error {
			switch {
			case from.file == "" && len(args) != 2:
				return usageError("name a customer and a tier")
			case from.file != "" && len(args) > 1:
				return usageError("name a tier, or none, with -from")
			}
			return flags.checkWhy()
		},
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		var tier *string
		if len(args) > 0 {
			tier, args = &args[len(args)-1], args[:len(args)-1]
		}
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if tier == nil {
			if lines, err = stillSet(lines, func(n named) bool { _, ok := n.tier(); return ok }); err != nil {
				return err
			}
		}
		if err := c.mustFollow(command); err != nil {
			return err
		}
		at := 0
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			wanted, ok := lines[at].tier()
			at++
			if tier != nil {
				wanted, ok = *tier, true
			}
			if !ok {
				return nil, usageError("%s: the line has no tier, and no argument names one", insight.Shown(customer))
			}
			changed := memberChanged{Name: insight.NameOf(customer), Tier: &wanted, Replaced: c.MemberOf(customer)}
			version, err := c.Admin.SetMember(ctx, customer, wanted, flags.change(command, changed.replaced()))
			if changed.Version = version; err != nil {
				return nil, explained(ctx, c, err, "member", customer)
			}
			return changed, nil
		})
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	flags.register(command)
	from.register(command)
	queue.register(command)
	connect.register(command)
	return command
}

func (m *memberChanged) replaced() int64 {
	if m.Replaced == nil {
		return 0
	}
	return m.Replaced.Version
}

func newMembersEnd() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var flags changeFlags
	var from fromFlag
	var asJSON bool
	command := &cobra.Command{
		Use:               "end {CUSTOMER… | -from FILE} -why TEXT",
		Short:             "Leaves customers' tiers to the workers' own options again",
		Long:              "End leaves customers' tiers to the workers' own TierOf again.\n\n" + changeHelp + "\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              from.check,
		ValidArgsFunction: cobra.NoFileCompletions,
		PreRunE:           func(*cobra.Command, []string) error { return flags.checkWhy() },
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, args []string) error {
		lines, err := from.customers(command, args)
		if err != nil {
			return err
		}
		if err := c.mustFollow(command); err != nil {
			return err
		}
		return eachCustomer(command, c, names(lines), asJSON, func(ctx context.Context, customer string) (any, error) {
			changed := memberChanged{Name: insight.NameOf(customer), Replaced: c.MemberOf(customer)}
			version, err := c.Admin.EndMember(ctx, customer, flags.change(command, changed.replaced()))
			if changed.Version = version; err != nil {
				return nil, explained(ctx, c, err, "member", customer)
			}
			return changed, nil
		})
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	flags.register(command)
	from.register(command)
	queue.register(command)
	connect.register(command)
	return command
}

func newMembersList() *cobra.Command {
	var connect connectionFlags
	var queue queueFlags
	var asJSON bool
	command := &cobra.Command{
		Use:               "list",
		Short:             "Lists the customers whose tier operators have set",
		Long:              "List prints the customers whose tier operators have set, by tier.\n\n" + connectionHelp + "\n\n" + exitHelp,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	command.RunE = connected(&connect, &queue, func(command *cobra.Command, c *connection, _ []string) error {
		if err := c.mustFollow(command); err != nil {
			return err
		}
		return printMembers(command.OutOrStdout(), c.Members(), asJSON)
	})
	command.Flags().BoolVar(&asJSON, "json", false, "print one JSON object a customer")
	queue.register(command)
	connect.register(command)
	return command
}

func printMembers(w io.Writer, all []insight.Member, asJSON bool) error {
	if asJSON {
		return writeAll(w, all)
	}
	var out strings.Builder
	if len(all) == 0 {
		out.WriteString("No customer's tier is set.\n")
	} else {
		out.WriteString("VERSION  TIER              CUSTOMER\n")
	}
	for _, m := range all {
		tier := tierName(m.Tier.Tier)
		if m.Missing() {
			tier += " (no policy)"
		}
		fmt.Fprintf(&out, "%7d  %-16s  %s\n", m.Version, tier, insight.Shown(m.Exact()))
		indented(&out, 9, fmt.Sprintf("by %s: %s", insight.Shown(m.By), insight.Quoted(m.Why)))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
