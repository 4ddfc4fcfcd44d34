package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

const (
	bold    = "\x1b[1m"
	reverse = "\x1b[7m"
	red     = "\x1b[31m"
	cyan    = "\x1b[36m"
	normal  = "\x1b[m"
)

// drawing is what top shows.
type drawing struct {
	look
	live          bool // on a terminal
	width, height int

	selected int    // the index of the customer that Enter looks up
	footer   string // the last line of a terminal
}

// text draws everything. On a terminal it has exactly the terminal's lines, in its
// width.
func (d drawing) text() string {
	lines := d.head()
	if d.top != nil {
		lines = append(lines, d.tables(d.height-1-len(lines))...)
	}
	if !d.live {
		return strings.Join(lines, "\n") + "\n"
	}
	return d.fitted(lines)
}

// fitted fits lines into a terminal, with the footer below.
func (d drawing) fitted(lines []string) string {
	lines = lines[:min(len(lines), max(d.height-1, 1))]
	for len(lines) < d.height-1 {
		lines = append(lines, "")
	}
	if d.height > 1 {
		lines = append(lines, d.footer)
	}
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, d.width, "…")
	}
	return strings.Join(lines, "\n")
}

// mostTrouble is how many lines there are of what is wrong.
const mostTrouble = 3

// head says what top shows, and what is wrong.
func (d drawing) head() []string {
	s := d.snapshot
	if s == nil {
		return []string{d.styled(red, "looking again: "+insight.OneLine(d.failed))}
	}
	lines := []string{d.styled(bold, fmt.Sprintf("%s  prefix %s  %s", s.Server.Address, insight.Shown(s.Prefix), s.Name))}
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

// tables draws the levels and the busiest customers. If a terminal has too few lines for
// both, it leaves out blank lines and levels without documents, and has one line for
// several levels, so that the last level and the busiest are always there.
func (d drawing) tables(room int) []string {
	rows, busiest, blank := d.rows(), d.top.Busiest, []string{""}
	if d.live {
		if few := min(len(busiest), 3); room >= 4+len(rows)+few {
			room -= 4 // two headings, and a blank line above each
		} else {
			room, blank = room-2, nil
			rows = joined(occupied(rows), room-min(len(busiest), (room+1)/2))
		}
		room = max(room-len(rows), 0)
		first := max(min(d.selected-room+1, len(busiest)-room), 0) // so that the selected customer is shown
		busiest = busiest[first:min(first+room, len(busiest))]
		d.selected -= first
	}
	return slices.Concat(blank, d.levels(rows), blank, d.busiest(busiest))
}

// row is a line of the levels.
type row struct {
	from, to priority.Level
	insight.Level
}

func (d drawing) rows() (rows []row) {
	for _, load := range d.top.Levels {
		rows = append(rows, row{load.Level, load.Level, load})
	}
	return rows
}

// occupied leaves out the empty levels, unless all are empty.
func occupied(rows []row) []row {
	left := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Documents()+r.Done+r.Pending == 0 })
	if len(left) == 0 {
		return rows
	}
	return left
}

// joined returns at most that many rows, at least one: the first row stands for several
// levels, and has their longest waits.
func joined(rows []row, most int) []row {
	for len(rows) > max(most, 1) {
		first := rows[0]
		rows = slices.Clone(rows[1:])
		next := &rows[0]
		next.from = first.from
		next.ByCount += first.ByCount
		next.ByLoad += first.ByLoad
		next.MedianMS, next.P95MS = max(next.MedianMS, first.MedianMS), max(next.P95MS, first.P95MS)
		next.Pending += first.Pending
		next.OldestMS = max(next.OldestMS, first.OldestMS)
	}
	return rows
}

// levels draws the levels: the documents by the rules that the fleet uses, how long they
// took, and a bar for the documents.
func (d drawing) levels(rows []row) []string {
	type column struct {
		heading string
		value   func(r row) string
	}
	counts := slices.ContainsFunc(rows, func(r row) bool { return r.ByCount > 0 })
	loads := slices.ContainsFunc(rows, func(r row) bool { return r.ByLoad > 0 })
	number := func(of func(r row) int64) func(row) string {
		return func(r row) string { return insight.Group(of(r)) }
	}
	columns := []column{{"DOCS", number(func(r row) int64 { return r.Documents() })}}
	narrow := d.width < 60
	if counts && loads && !narrow {
		columns = []column{{"BY COUNT", number(func(r row) int64 { return r.ByCount })}, {"BY LOAD", number(func(r row) int64 { return r.ByLoad })}}
	}
	if waits := slices.ContainsFunc(rows, func(r row) bool { return r.Done+r.Pending > 0 }); waits && !narrow {
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
		name := fmt.Sprint(r.from)
		if r.to > r.from {
			name += fmt.Sprintf("–%d", r.to)
		}
		line := fmt.Sprintf("%5s", name)
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

func (d drawing) busiest(customers []insight.Busy) []string {
	t := table{reported: true, narrow: d.width < 60}
	for _, b := range customers {
		t.byCount = t.byCount || b.State != nil && b.ByCount()
		t.byLoad = t.byLoad || b.State != nil && b.ByLoad()
	}
	lines := []string{d.styled(bold, t.heading())}
	for i, b := range customers {
		line := t.line(b)
		if i == d.selected && d.live {
			line = d.styled(reverse, line)
		}
		lines = append(lines, line)
	}
	return lines
}
