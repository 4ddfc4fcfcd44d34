package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const (
	bold   = "\x1b[1m"
	red    = "\x1b[31m"
	cyan   = "\x1b[36m"
	normal = "\x1b[m"
)

// drawing is what top shows.
type drawing struct {
	look
	live          bool // whether it is drawn on a terminal, again and again
	width, height int
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
const mostTrouble = 3

// head says what top shows, and what is wrong.
func (d drawing) head() []string {
	s := d.snapshot
	if s == nil {
		return []string{d.styled(red, "looking again: "+insight.OneLine(d.failed))}
	}
	lines := []string{d.styled(bold, fmt.Sprintf("%s  prefix %s  %s", s.Address, insight.Shown(s.Prefix), s.Source))}
	if d.failed != nil {
		lines = append(lines, d.styled(red, "looking again: "+insight.OneLine(d.failed)))
	} else {
		lines = append(lines, strings.Split(insight.Wrap(s.Says(), max(d.width-1, 20)), "\n")...)
	}
	var trouble []string
	add := func(text string) {
		trouble = append(trouble, strings.Split(insight.Wrap(text, max(d.width-1, 20)), "\n")...)
	}
	if s.Full() {
		add("Redis is full: reports cannot be written, so workers may be missing.")
	}
	if lost := s.Lost(); lost != "" {
		add(lost)
	}
	if s.ReportsErr != nil {
		add("the workers' reports cannot be read: " + insight.OneLine(s.Hidden(s.ReportsErr)))
	}
	if s.PoliciesErr != nil {
		add("what operators have set cannot be read: " + insight.OneLine(s.Hidden(s.PoliciesErr)))
	}
	if slices.ContainsFunc(s.Workers, func(w insight.Worker) bool { return w.Here && !w.Follows }) {
		add(s.Following())
	}
	if d.live && d.top.Missing != nil { // else it is on stderr
		add(insight.OneLine(s.Hidden(d.top.Missing)))
	}
	if stuck := d.top.Stuck(); stuck != "" {
		add(stuck)
	}
	for _, line := range trouble[:min(len(trouble), mostTrouble)] {
		lines = append(lines, d.styled(red, line))
	}
	return lines
}

func (d drawing) styled(style, text string) string {
	if !d.live {
		return text
	}
	return style + text + normal
}

// levels draws the levels: the documents by the rules that the fleet uses, how long they
// took, and a bar for the documents.
func (d drawing) levels() []string {
	rows := d.top.Levels
	if d.live && len(rows) > d.height/2 { // so that lines are left for the customers
		rows = slices.DeleteFunc(slices.Clone(rows), func(l insight.Level) bool { return l.Documents()+l.Done+l.Pending == 0 })
	}
	columns := columnsOf(rows)
	heading, most := "LEVEL", int64(1)
	for _, c := range columns {
		heading += fmt.Sprintf("  %8s", c.heading)
	}
	lines := []string{d.styled(bold, heading)}
	for _, l := range rows {
		most = max(most, l.Documents())
	}
	for _, l := range rows {
		line := fmt.Sprintf("%5d", l.Level)
		for _, c := range columns {
			line += fmt.Sprintf("  %8s", c.cell(l))
		}
		if cells := int64(d.width - utf8.RuneCountInString(line) - 3); cells > 3 && l.Documents() > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*l.Documents()/most, 1))))
		}
		lines = append(lines, line)
	}
	return lines
}

// column is a column of the levels.
type column struct {
	heading string
	cell    func(l insight.Level) string
}

// columnsOf returns the columns that say something about the levels.
func columnsOf(rows []insight.Level) []column {
	number := func(heading string, value func(l insight.Level) int64) column {
		return column{heading, func(l insight.Level) string { return insight.Group(value(l)) }}
	}
	wait := func(heading string, value func(l insight.Level) time.Duration) column {
		return column{heading, func(l insight.Level) string {
			if value(l) == 0 {
				return "-"
			}
			return insight.About(value(l))
		}}
	}
	columns := []column{number("DOCS", insight.Level.Documents)}
	counts := slices.ContainsFunc(rows, func(l insight.Level) bool { return l.ByCount > 0 })
	loads := slices.ContainsFunc(rows, func(l insight.Level) bool { return l.ByLoad > 0 })
	if counts && loads {
		columns = []column{
			number("BY COUNT", func(l insight.Level) int64 { return l.ByCount }),
			number("BY LOAD", func(l insight.Level) int64 { return l.ByLoad }),
		}
	}
	if slices.ContainsFunc(rows, func(l insight.Level) bool { return l.Done+l.Pending > 0 }) {
		columns = append(columns,
			number("PENDING", func(l insight.Level) int64 { return l.Pending }),
			wait("MEDIAN", insight.Level.Median), wait("95TH", insight.Level.P95), wait("OLDEST", insight.Level.Oldest))
	}
	return columns
}

func (d drawing) busiest() []string {
	t := table{reported: true, number: "LOAD"}
	if slices.ContainsFunc(d.top.Busiest, func(b insight.Busy) bool { return b.State != nil && b.State.Rule == priority.ByCount }) {
		t.number = "COUNT/LOAD"
	}
	lines := []string{d.styled(bold, t.heading())}
	for _, b := range d.top.Busiest {
		lines = append(lines, t.line(b))
	}
	return lines
}
