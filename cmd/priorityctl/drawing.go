package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority/page/insight"
)

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	normal = "\x1b[m"
)

// drawing is what top shows, as it was when a step ended.
type drawing struct {
	title, status string
	last          insight.Snapshot
	midway        bool  // through the next pass
	failed        error // that pass
	unfollowed    error // why what operators have set is not known; nil: it is
	live          bool  // on a terminal
	width, height int
}

func (t top) drawing() drawing {
	return drawing{title: t.title(), status: t.tally.Status(), unfollowed: t.now.failed, last: t.tally.Last(), midway: t.tally.Midway()}
}

// text draws all. On a terminal it has exactly as many lines as that, in
// its width.
func (d drawing) text() string {
	lines := []string{d.styled(bold, d.title), d.status}
	if d.failed != nil {
		lines[1] = d.styled(red, "looking again: "+insight.OneLine(d.failed))
	}
	if d.unfollowed != nil && d.live {
		lines = append(lines, d.styled(red, "what operators have set cannot be read: "+insight.OneLine(d.unfollowed)))
	}
	if !d.last.At.IsZero() {
		lines = append(lines, "")
		lines = append(lines, d.levels()...)
		lines = append(lines, "")
		lines = append(lines, d.busiest(d.height-len(lines)-1)...)
	}
	if !d.live {
		return strings.Join(lines, "\n") + "\n"
	}
	lines = lines[:min(len(lines), max(d.height-1, 1))]
	for len(lines) < d.height-1 {
		lines = append(lines, "")
	}
	if d.height > 1 {
		lines = append(lines, "q: quit")
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, d.width, "…")
	}
	return strings.Join(lines, "\n")
}

func (d drawing) styled(style, text string) string {
	if !d.live {
		return text
	}
	return style + text + normal
}

// levels draws a line for each level; where the screen is too low for all, for
// each that has customers, as far as half the screen goes.
func (d drawing) levels() []string {
	lines := []string{d.styled(bold, "LEVEL  CUSTOMERS  DOCUMENTS")}
	most := int64(1)
	for _, level := range d.last.Levels {
		most = max(most, level.Documents)
	}
	room := len(d.last.Levels)
	if d.live {
		room = min(room, max(d.height/2, 1))
	}
	all := room == len(d.last.Levels)
	left := 0
	for _, level := range d.last.Levels {
		if !all && level.Customers == 0 {
			continue
		}
		if len(lines) > room {
			left++
			continue
		}
		line := fmt.Sprintf("%5d  %9s  %9s", level.Level, insight.Group(level.Customers), insight.Group(level.Documents))
		if cells := int64(d.width - len(line) - 3); cells > 3 && level.Documents > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*level.Documents/most, 1))))
		}
		lines = append(lines, line)
	}
	if left > 0 {
		lines[len(lines)-1] = fmt.Sprintf("       … %d levels more", left+1)
	}
	return lines
}

// busiest draws the busiest customers, in at most so many lines on a terminal.
func (d drawing) busiest(room int) []string {
	narrow := d.width < 60
	heading := "LEVEL       COUNT  DOCUMENTS   RESETS IN  CUSTOMER"
	if narrow {
		heading = "LEVEL  DOCUMENTS  CUSTOMER"
	}
	lines := []string{d.styled(bold, heading)}
	for _, b := range d.last.Busiest {
		if d.live && len(lines) >= room {
			break
		}
		resets := "never"
		if b.ResetInMS > 0 {
			resets = insight.Span(time.Duration(b.ResetInMS) * time.Millisecond)
		}
		line := fmt.Sprintf("%5d  %10s  %9s  %10s  %s", b.Level, insight.Group(b.Count), insight.Group(b.Documents), resets, shown(b))
		if narrow {
			line = fmt.Sprintf("%5d  %9s  %s", b.Level, insight.Group(b.Documents), shown(b))
		}
		lines = append(lines, line)
	}
	return lines
}

func shown(b insight.Busy) string { return insight.Shown(b.Exact()) + ifOverridden(b.Overridden) }
