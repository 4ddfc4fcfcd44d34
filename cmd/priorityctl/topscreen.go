package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
	heading := "LEVEL      DOCS"
	if waits {
		heading += "   PENDING    MEDIAN      95TH    OLDEST"
	}
	lines := []string{d.styled(bold, heading)}
	for _, l := range rows {
		line := fmt.Sprintf("%5d  %8s", l.Level, insight.Group(l.Documents()))
		if waits {
			line += fmt.Sprintf("  %8s  %8s  %8s  %8s", insight.Group(l.Pending), wait(l.Median()), wait(l.P95()), wait(l.Oldest()))
		}
		if cells := int64(d.width - utf8.RuneCountInString(line) - 3); cells > 3 && l.Documents() > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*l.Documents()/most, 1))))
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
	lines := []string{d.styled(bold, t.heading())}
	for _, b := range d.top.Busiest {
		lines = append(lines, t.line(b))
	}
	return lines
}
