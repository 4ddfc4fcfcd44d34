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
	live          bool // on a terminal
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
	lines := []string{d.styled(bold, fmt.Sprintf("%s  prefix %s  %s", s.Address, insight.Shown(s.Prefix), s.Name))}
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
		add("Redis lost rules: " + lost)
	}
	if s.Unreported != nil {
		add("the workers' reports cannot be read: " + insight.OneLine(s.Hidden(s.Unreported)))
	}
	if s.Unread != nil {
		add("what operators have set cannot be read: " + insight.OneLine(s.Hidden(s.Unread)))
	}
	if slices.ContainsFunc(s.Workers, func(w insight.Worker) bool { return w.Here && !w.Follows }) {
		add(s.Following())
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
	type row = insight.Level
	type column struct {
		heading string
		value   func(r row) string
	}
	rows := d.top.Levels
	if d.live && len(rows) > d.height/2 { // else there is no line for the customers
		rows = slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Documents()+r.Done+r.Pending == 0 })
	}
	counts := slices.ContainsFunc(rows, func(r row) bool { return r.ByCount > 0 })
	loads := slices.ContainsFunc(rows, func(r row) bool { return r.ByLoad > 0 })
	number := func(of func(r row) int64) func(row) string {
		return func(r row) string { return insight.Group(of(r)) }
	}
	columns := []column{{"DOCS", number(func(r row) int64 { return r.Documents() })}}
	if counts && loads {
		columns = []column{{"BY COUNT", number(func(r row) int64 { return r.ByCount })}, {"BY LOAD", number(func(r row) int64 { return r.ByLoad })}}
	}
	if waits := slices.ContainsFunc(rows, func(r row) bool { return r.Done+r.Pending > 0 }); waits {
		columns = append(columns, column{"PENDING", number(func(r row) int64 { return r.Pending })})
		for _, wait := range []struct {
			heading string
			of      func(r row) time.Duration
		}{
			{"MEDIAN", func(r row) time.Duration { return r.Median() }},
			{"95TH", func(r row) time.Duration { return r.P95() }},
			{"OLDEST", func(r row) time.Duration { return r.Oldest() }},
		} {
			columns = append(columns, column{wait.heading, func(r row) string {
				if wait.of(r) == 0 {
					return "-"
				}
				return insight.About(wait.of(r))
			}})
		}
	}
	heading, most := "LEVEL", int64(1)
	for _, c := range columns {
		heading += fmt.Sprintf("  %8s", c.heading)
	}
	lines := []string{d.styled(bold, heading)}
	for _, r := range rows {
		most = max(most, r.Documents())
	}
	for _, r := range rows {
		line := fmt.Sprintf("%5d", r.Level)
		for _, c := range columns {
			line += fmt.Sprintf("  %8s", c.value(r))
		}
		if cells := int64(d.width - utf8.RuneCountInString(line) - 3); cells > 3 && r.Documents() > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*r.Documents()/most, 1))))
		}
		lines = append(lines, line)
	}
	return lines
}

func (d drawing) busiest() []string {
	t := table{reported: true, number: "LOAD"}
	if slices.ContainsFunc(d.top.Busiest, func(b insight.Busy) bool { return b.State != nil && b.ByCount() }) {
		t.number = "COUNT/LOAD"
	}
	lines := []string{d.styled(bold, t.heading())}
	for _, b := range d.top.Busiest {
		lines = append(lines, t.line(b))
	}
	return lines
}
