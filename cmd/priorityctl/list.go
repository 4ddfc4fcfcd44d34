package main

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const listLong = `List prints every customer that Redis knows, in the order of SCAN, on all masters of a
cluster. NEXT is the level of a document that arrives now. It looks at every key of
Redis at a bounded pace, which spares the fleet; some customers may appear twice.

  priorityctl list -level 8,9
  priorityctl list -corrupt
  priorityctl list -level 9 -json | priorityctl get -from -`

func newList() *cobra.Command {
	var connect connectionFlags
	var levels []int
	var corrupt, asJSON bool
	var limit, pace int
	command := &cobra.Command{Use: "list", Long: listLong}
	command.RunE = connected(&connect, func(*cobra.Command) error {
		switch {
		case corrupt && len(levels) > 0:
			return usageError("a corrupt key has no level: leave out -level")
		case limit < 0 || pace < 0:
			return usageError("-limit %d, -pace %d: neither may be negative", limit, pace)
		}
		return nil
	}, func(command *cobra.Command, c *connection, _ []string) error {
		for _, level := range levels {
			if level < 1 || level > int(c.Last) {
				return usageError("-level %d: the levels are 1 to %d", level, c.Last)
			}
		}
		c.warn(command)
		out, printed, rows := command.OutOrStdout(), 0, table{number: "COUNT/LOAD"}
		for walk := c.Walk(pace); !walk.Done() && (limit == 0 || printed < limit); {
			page, err := walk.Next(command.Context())
			if err != nil {
				return err
			}
			page = slices.DeleteFunc(page, func(l insight.Listed) bool {
				return corrupt && l.Corrupt == "" || len(levels) > 0 && (l.Corrupt != "" || !slices.Contains(levels, int(l.NextLevel)))
			})
			if limit > 0 {
				page = page[:min(len(page), limit-printed)]
			}
			if asJSON {
				err = writeAll(out, page)
			} else if printed == 0 && len(page) > 0 {
				_, err = fmt.Fprintln(out, rows.heading())
			}
			for _, listed := range page {
				if err != nil || asJSON {
					break
				}
				line := rows.line(insight.Busy{Name: listed.Name, State: listed.State})
				if listed.Corrupt != "" {
					line += ", " + insight.Shown(listed.Corrupt)
				}
				_, err = fmt.Fprintln(out, line)
			}
			if err != nil {
				return err
			}
			printed += len(page)
		}
		if printed == 0 && !asJSON {
			fmt.Fprintln(out, "No such customer.")
		}
		return nil
	})
	flags := command.Flags()
	flags.IntSliceVar(&levels, "level", nil, "only customers whose next document gets one of these levels, such as 8,9")
	flags.BoolVar(&corrupt, "corrupt", false, "only customers with a corrupt key, be it the override's")
	flags.IntVar(&limit, "limit", 0, "stop after so many customers; 0: list all")
	flags.IntVar(&pace, "pace", 20_000, "look at no more keys a second than this; 0: as fast as Redis answers")
	registerJSON(command, &asJSON)
	connect.registerPolicy(command)
	connect.register(command)
	return command
}
