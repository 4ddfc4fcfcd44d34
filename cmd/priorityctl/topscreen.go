package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// drawing is what top shows.
type drawing struct {
	look
	live          bool // whether it is drawn on a terminal, again and again
	width, height int
	paint         func(style, text string) string
}

// text draws everything; on a terminal, what fits.
func (d drawing) text() string {
	lines := d.head()
	if d.top != nil {
		lines = slices.Concat(lines, []string{""}, d.levels(), []string{""}, d.busiest())
	}
	if d.live {
		return strings.Join(lines[:min(len(lines), max(d.height, 1))], "\n")
	}
	return strings.Join(lines, "\n") + "\n"
}

// mostTrouble is the most lines about what is wrong.
const mostTrouble = 4

// head says what top shows, and what is wrong.
func (d drawing) head() []string {
	s := d.snapshot
	if s == nil {
		return d.wrapped(red, "looking again: "+insight.OneLine(d.failed))
	}
	lines := d.wrapped(bold, fmt.Sprintf("%s  prefix %s  %s", s.Address, insight.Shown(s.Prefix), s.Source))
	if d.failed != nil {
		lines = append(lines, d.wrapped(red, "looking again: "+insight.OneLine(d.failed))...)
	} else {
		lines = append(lines, d.wrapped("", s.Says())...)
	}
	var trouble []string
	for _, check := range d.checks {
		if check.Status != insight.OK {
			trouble = append(trouble, d.wrapped(red, check.Check+": "+check.Found)...)
		}
	}
	if d.live && d.top.Missing != nil { // else it is on stderr
		trouble = append(trouble, d.wrapped(red, insight.OneLine(s.Hidden(d.top.Missing)))...)
	}
	if len(trouble) > mostTrouble {
		trouble = append(trouble[:mostTrouble-1], d.paint(red, "There is more: priorityctl status"))
	}
	return append(lines, trouble...)
}

// wrapped breaks a text into lines. A word that is longer than a line is cut on a terminal.
func (d drawing) wrapped(style, text string) []string {
	lines := strings.Split(insight.Wrap(text, max(d.width-1, 20)), "\n")
	for i, line := range lines {
		if d.live {
			line = cut(line, d.width)
		}
		lines[i] = d.paint(style, line)
	}
	return lines
}

var (
	levelColumns = columns{{"LEVEL", 5}, {"DOCS", 9}}
	waitColumns  = append(slices.Clip(levelColumns), column{"PENDING", 9}, column{"MEDIAN", 8}, column{"95TH", 8}, column{"OLDEST", 8})
)

// levels draws the levels: the documents that got each, how long documents took and wait, if any
// are known to, and a bar for the documents.
func (d drawing) levels() []string {
	rows, most := d.top.Levels, int64(1)
	if d.live && len(rows) > d.height/2 { // so that lines are left for the customers
		rows = slices.DeleteFunc(slices.Clone(rows), func(l insight.Level) bool { return l.Documents()+l.Done+l.Pending == 0 })
	}
	for _, l := range rows {
		most = max(most, l.Documents())
	}
	waits := slices.ContainsFunc(rows, func(l insight.Level) bool { return l.Done+l.Pending > 0 })
	shown := levelColumns
	if waits {
		shown = waitColumns
	}
	lines := []string{d.paint(bold, shown.heading())}
	for _, l := range rows {
		line := shown.line(fmt.Sprint(l.Level), insight.Group(l.Documents()), l.PendingSays(), wait(l.Median()), wait(l.P95()), wait(l.Oldest()))
		if cells := int64(d.width - columnsOf(line) - 3); cells > 3 && l.Documents() > 0 {
			line += "  " + d.paint(cyan, strings.Repeat("█", int(max(cells*l.Documents()/most, 1))))
		}
		lines = append(lines, line)
	}
	return lines
}

func wait(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return insight.About(d)
}

func (d drawing) busiest() []string {
	t := table{reported: true, accounts: d.snapshot.Accounts}
	if d.live {
		t.width = d.width
	}
	lines := []string{d.paint(bold, t.heading())}
	for _, b := range d.top.Busiest {
		lines = append(lines, t.line(b))
	}
	return lines
}
