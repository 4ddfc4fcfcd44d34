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
	from, to             priority.Level
	customers, documents int64
}

func (d drawing) rows() (rows []row) {
	for _, load := range d.last.Levels {
		rows = append(rows, row{load.Level, load.Level, load.Customers, load.Documents})
	}
	return rows
}

// occupied leaves out the levels without customers and documents, unless all are so.
func occupied(rows []row) []row {
	left := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.customers+r.documents == 0 })
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
		rows[0].customers += first.customers
		rows[0].documents += first.documents
	}
	return rows
}

func (d drawing) levels(rows []row) []string {
	lines := []string{d.styled(bold, "LEVEL  CUSTOMERS  DOCUMENTS")}
	most := int64(1)
	for _, r := range rows {
		most = max(most, r.documents)
	}
	for _, r := range rows {
		name := fmt.Sprint(r.from)
		if r.to > r.from {
			name += fmt.Sprintf("–%d", r.to)
		}
		line := fmt.Sprintf("%5s  %9s  %9s", name, insight.Group(r.customers), insight.Group(r.documents))
		if cells := int64(d.width - utf8.RuneCountInString(line) - 3); cells > 3 && r.documents > 0 {
			line += "  " + d.styled(cyan, strings.Repeat("█", int(max(cells*r.documents/most, 1))))
		}
		lines = append(lines, line)
	}
	return lines
}

func (d drawing) busiest(customers []insight.Busy) []string {
	narrow := d.width < 60
	heading := "LEVEL       COUNT  DOCUMENTS   RESETS IN  CUSTOMER"
	if narrow {
		heading = "LEVEL  DOCUMENTS  CUSTOMER"
	}
	lines := []string{d.styled(bold, heading)}
	for _, b := range customers {
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
