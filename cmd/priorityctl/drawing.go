package main

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
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
	return drawing{title: t.title(), status: t.survey.Status(), unfollowed: t.now.failed, last: t.survey.Last(), midway: t.survey.Midway()}
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
		lines = append(lines, d.tables(d.height-1-len(lines))...)
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

// tables draws the levels and the busiest customers. Where so many lines of a terminal
// are too few, it leaves out blank lines and levels without documents, and has one line
// for several levels, so that the last level and the busiest are always there.
func (d drawing) tables(room int) []string {
	rows, busiest, blank := d.rows(), d.last.Busiest, []string{""}
	if d.live {
		if few := min(len(busiest), 3); room >= 4+len(rows)+few {
			room -= 4 // two headings, and a blank line above each
		} else {
			room, blank = room-2, nil
			rows = joined(occupied(rows), room-min(len(busiest), (room+1)/2))
		}
		busiest = busiest[:min(len(busiest), max(room-len(rows), 0))]
	}
	return slices.Concat(blank, d.levels(rows), blank, d.busiest(busiest))
}

// row is a line of the levels.
type row struct {
	from, to priority.Level
	insight.LevelLoad
}

func (d drawing) rows() (rows []row) {
	for _, load := range d.last.Levels {
		rows = append(rows, row{load.Level, load.Level, load})
	}
	return rows
}

// occupied leaves out the levels at which nothing is, unless all are so.
func occupied(rows []row) []row {
	left := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.Customers+r.Documents+r.Pending == 0 })
	if len(left) == 0 {
		return rows
	}
	return left
}

// joined makes at most so many rows, at least one: the first is that of several levels.
func joined(rows []row, most int) []row {
	for len(rows) > max(most, 1) {
		first := rows[0]
		rows = slices.Clone(rows[1:])
		rows[0].from = first.from
		rows[0].Customers += first.Customers
		rows[0].Documents += first.Documents
		rows[0].Pending += first.Pending
	}
	return rows
}

// levels draws the levels: the documents of those who are counted by count, what is
// pending of those by load, and a bar for the last of the two.
func (d drawing) levels(rows []row) []string {
	t, heading := d.table(), "LEVEL  CUSTOMERS"
	if t.byCount {
		heading += "  DOCUMENTS"
	}
	if t.byLoad {
		heading += "    PENDING"
	}
	bar := func(r row) int64 {
		if t.byLoad {
			return r.Pending
		}
		return r.Documents
	}
	lines, most := []string{d.styled(bold, heading)}, int64(1)
	for _, r := range rows {
		most = max(most, bar(r))
	}
	for _, r := range rows {
		name := fmt.Sprint(r.from)
		if r.to > r.from {
			name += fmt.Sprintf("–%d", r.to)
		}
		line := fmt.Sprintf("%5s  %9s", name, insight.Group(r.Customers))
		if t.byCount {
			line += fmt.Sprintf("  %9s", insight.Group(r.Documents))
		}
		if t.byLoad {
			line += fmt.Sprintf("  %9s", insight.Group(r.Pending))
		}
		if cells := int64(d.width - utf8.RuneCountInString(line) - 3); cells > 3 && bar(r) > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*bar(r)/most, 1))))
		}
		lines = append(lines, line)
	}
	return lines
}

func (d drawing) busiest(customers []insight.Busy) []string {
	t := d.table()
	t.narrow = d.width < 60
	lines := []string{d.styled(bold, t.heading())}
	for _, b := range customers {
		lines = append(lines, t.line(b))
	}
	return lines
}

// table has the columns of the fleet's rules; of the first one if nobody is there.
func (d drawing) table() table {
	return table{byCount: d.last.ByCount > 0 || d.last.ByLoad == 0, byLoad: d.last.ByLoad > 0, documents: true}
}
