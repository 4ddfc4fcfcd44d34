package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/spf13/cobra"
)

const topLong = `Top shows which levels documents got in the last minute, how long they took from
Submit to Done, what waits, and the customers with the most documents: live on a
terminal, until Ctrl-C; once anywhere else. It adds up the reports of workers that use
fleet.Join, or its equivalent in another language.

  priorityctl top
  priorityctl top -once

DOCS, BY COUNT, BY LOAD are documents that got the level in the last minute, by the
rule; PENDING and OLDEST what waits there, of the customers that reports name; MEDIAN
and 95TH the time from Submit to Done. LAST and NEXT are the level of the customer's
last document, and of one that arrives now.`

func newTop() *cobra.Command {
	var connect connectionFlags
	var once, asJSON bool
	command := &cobra.Command{Use: "top", Long: topLong}
	command.RunE = connected(&connect, nil, func(command *cobra.Command, c *connection, _ []string) error {
		if _, _, ok := environmentOf(command).terminal(command.OutOrStdout()); ok && !once && !asJSON {
			return live(command, c.Inspector)
		}
		c.warn(command)
		top, err := c.Top(command.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return writeJSON(command.OutOrStdout(), struct {
				At       time.Time        `json:"at"`
				WindowMS int64            `json:"window_ms"`
				Workers  int              `json:"workers"`
				Gone     int              `json:"gone"`
				Degraded int              `json:"degraded"`
				Full     bool             `json:"redis_full"`
				Errors   map[string]int64 `json:"errors"`
				*insight.Top
			}{c.At, c.Totals.Window.Milliseconds(), c.Totals.Reports, c.Totals.Gone, c.Totals.Degraded, c.Full(), c.Totals.Errors, top})
		}
		_, err = io.WriteString(command.OutOrStdout(), drawing{look: look{snapshot: c.Snapshot, top: top}, width: 80}.text())
		return err
	})
	command.Flags().BoolVar(&once, "once", false, "print once, even on a terminal")
	registerJSON(command, &asJSON)
	connect.registerPolicy(command)
	connect.register(command)
	return command
}

// look is what was seen at a time.
type look struct {
	snapshot *insight.Snapshot // nil: nothing yet
	top      *insight.Top
	failed   error // why there is no newer snapshot
}

// again looks once more. What cannot be read stays as it was.
func again(ctx context.Context, inspector *insight.Inspector, before look) look {
	snapshot, err := inspector.Look(ctx)
	if err == nil {
		var top *insight.Top
		if top, err = snapshot.Top(ctx); err == nil {
			return look{snapshot, top, nil}
		}
	}
	before.failed = inspector.Hidden(err)
	return before
}

// live draws on a terminal, again and again, until Ctrl-C.
func live(command *cobra.Command, inspector *insight.Inspector) error {
	ctx, out := command.Context(), command.OutOrStdout()
	// The alternate screen, without a cursor, and without wrapped lines.
	fmt.Fprint(out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	defer fmt.Fprint(out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	var seen look
	for every := time.Tick(2 * time.Second); ; {
		seen = again(ctx, inspector, seen)
		width, height, _ := environmentOf(command).terminal(out)
		if _, err := fmt.Fprint(out, "\x1b[H\x1b[J", drawing{look: seen, live: true, width: width, height: height}.text()); err != nil {
			return err
		}
		select {
		case <-every:
		case <-ctx.Done():
			return nil
		}
	}
}
