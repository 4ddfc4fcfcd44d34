package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const topLong = `Top shows which levels documents got in the last minute, how long they took from
Submit to Done, what waits, and the customers with the most documents: live on a
terminal, until q or Ctrl-C; once anywhere else. It adds up the reports of workers that
use fleet.Join, or its equivalent in another language.

  priorityctl top
  priorityctl top -once

DOCS are documents that got the level in the last minute; PENDING and OLDEST what is
known to wait there, of the customers that reports name; MEDIAN and 95TH the time from
Submit, or from when the document was due, to Done. LATEST and NEXT are the level of the
customer's latest document, and of one that arrives now; DOCUMENTS at least its number
in the last minute.`

func newTop() *cobra.Command {
	command := &cobra.Command{Use: "top", Long: topLong}
	once := command.Flags().Bool("once", false, "print once, even on a terminal")
	registerJSON(command)
	registerPolicy(command)
	return looking(command, nil, func(c *call, s *insight.Snapshot, _ []string) error {
		if _, _, ok := environmentOf(c.command).terminal(c.out); ok && !*once && !c.asJSON {
			return c.live()
		}
		if insight.Unreachable(s.ReportsErr) { // there is nothing to add up
			return s.ReportsErr
		}
		c.warn(s)
		top, err := s.Top(c.ctx())
		if err != nil {
			return err
		}
		if c.asJSON {
			err = writeJSON(c.out, struct {
				At       time.Time        `json:"at"`
				WindowMS int64            `json:"window_ms"`
				Workers  int              `json:"workers"`
				Gone     int              `json:"gone"`
				Degraded int              `json:"degraded"`
				Full     bool             `json:"redis_full"`
				Errors   map[string]int64 `json:"errors"`
				*insight.Top
			}{s.At, s.Totals.Window.Milliseconds(), s.Totals.Reports, s.Totals.Gone, s.Totals.Degraded, s.Full(), s.Totals.Errors, top})
		} else {
			_, err = io.WriteString(c.out, drawing{look: look{snapshot: s, top: top, checks: s.Status(c.ctx(), top, nil)}, width: 80, paint: plain}.text())
		}
		return cmp.Or(err, top.Missing.Err())
	})
}

// look is what was seen at a time.
type look struct {
	snapshot *insight.Snapshot // nil if there was none yet
	top      *insight.Top
	checks   []insight.Check
	failed   error // why there is no newer snapshot, or nil
}

// again looks once more. What cannot be read stays as it was.
func again(ctx context.Context, inspector *insight.Inspector, before look) look {
	snapshot, err := inspector.Look(ctx)
	if err == nil {
		var top *insight.Top
		if top, err = snapshot.Top(ctx); err == nil {
			return look{snapshot, top, snapshot.Status(ctx, top, nil), nil}
		}
	}
	before.failed = inspector.Hidden(err)
	return before
}

// live draws on a terminal, again and again, until q or Ctrl-C.
func (c *call) live() error {
	env := environmentOf(c.command)
	ctx, quit := context.WithCancel(c.ctx())
	defer quit()
	if restore, ok := env.keys(c.command.InOrStdin()); ok {
		defer restore()
		go quitOnKey(c.command.InOrStdin(), quit)
	}
	// The alternate screen, without a cursor, and without wrapped lines.
	fmt.Fprint(c.out, "\x1b[?1049h\x1b[?25l\x1b[?7l")
	defer fmt.Fprint(c.out, "\x1b[?7h\x1b[?25h\x1b[?1049l")
	var seen look
	for every := time.Tick(2 * time.Second); ; {
		seen = again(ctx, c.Inspector, seen)
		width, height, _ := env.terminal(c.out)
		screen := drawing{look: seen, live: true, width: width, height: height, paint: env.paint(c.out)}.text()
		if _, err := fmt.Fprint(c.out, "\x1b[H\x1b[J", strings.ReplaceAll(screen, "\n", "\r\n")); err != nil {
			return err
		}
		select {
		case <-every:
		case <-ctx.Done():
			return nil
		}
	}
}

// quitOnKey reads keys until one ends the program. A terminal that passes each key on sends no
// signal for Ctrl-C.
func quitOnKey(keys io.Reader, quit func()) {
	const ctrlC = 3
	for key := make([]byte, 1); ; {
		if n, err := keys.Read(key); err != nil {
			return
		} else if n > 0 && (key[0] == 'q' || key[0] == 'Q' || key[0] == ctrlC) {
			quit()
			return
		}
	}
}
