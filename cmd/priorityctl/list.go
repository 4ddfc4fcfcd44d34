package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const listLong = `List prints every customer that Redis knows, in the order of SCAN, on all masters of a
cluster. NEXT is the level of a document that arrives now; -level also finds who has
documents pending there, of the oldest thousand of a customer. It looks at every key of
Redis at a bounded pace, which spares the fleet; some customers may appear twice.

  priorityctl list -level 8,9
  priorityctl list -corrupt
  priorityctl list -level 9 -json | priorityctl get -from -`

// listFlags say which customers are listed.
type listFlags struct {
	levels  []int
	corrupt bool
}

func newList() *cobra.Command {
	var list listFlags
	command := &cobra.Command{Use: "list", Long: listLong}
	flags := command.Flags()
	flags.IntSliceVar(&list.levels, "level", nil, "only customers whose next document gets one of these levels, or who have documents there, such as 8,9")
	flags.BoolVar(&list.corrupt, "corrupt", false, "only customers with a corrupt key, be it the override's")
	registerJSON(command)
	registerPolicy(command)
	return looking(command, list.check, list.print)
}

func (f *listFlags) check(*cobra.Command) error {
	if f.corrupt && len(f.levels) > 0 {
		return usageError("a corrupt key has no level: leave out -level")
	}
	return nil
}

// print prints the customers that are asked for.
func (f *listFlags) print(c *call, s *insight.Snapshot, _ []string) error {
	for _, level := range f.levels {
		if level < 1 || level > int(s.Last) {
			return usageError("-level %d: the levels are 1 to %d", level, s.Last)
		}
	}
	c.warn(s)
	c.warnBelow(s)
	var missing insight.Missing
	printed, rows := 0, table{accounts: s.Accounts}
	for brief, err := range s.Customers(c.ctx()) {
		wanted := err == nil && f.want(brief)
		if err == nil && !wanted && f.levels != nil && !brief.OfAccount {
			wanted, err = s.WaitsAt(c.ctx(), brief, f.levels)
		}
		switch {
		case err != nil && (len(c.masters) == 1 || c.ctx().Err() != nil):
			return err
		case err != nil:
			missing.Add(err)
			continue
		case !wanted:
			continue
		case c.asJSON:
			err = writeJSON(c.out, brief)
		case printed == 0:
			_, err = fmt.Fprintf(c.out, "%s\n%s\n", rows.heading(), rows.line(insight.Busy{Brief: brief}))
		default:
			_, err = fmt.Fprintln(c.out, rows.line(insight.Busy{Brief: brief}))
		}
		if printed++; err != nil {
			return err
		}
	}
	if printed == 0 && missing == nil && !c.asJSON {
		fmt.Fprintln(c.out, "No such customer.")
	}
	return missing.Err()
}

// want reports whether a customer is asked for. A corrupt one has no level.
func (f *listFlags) want(brief insight.Brief) bool {
	if brief.OfAccount {
		return false // the account's line has it
	}
	if brief.State == nil {
		return f.levels == nil
	}
	return !f.corrupt && (f.levels == nil || slices.Contains(f.levels, int(brief.State.NextLevel)))
}
