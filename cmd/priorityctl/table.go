package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/insight"
)

// table writes customers in columns: those that the rules need by which they are counted.
type table struct {
	byCount, byLoad bool // there are customers counted so
	documents       bool // how many came is known
	narrow          bool // the terminal is
}

// column is one of a table. Rows of the other rule have "-" in it.
type column struct {
	heading string
	width   int
	value   func(c insight.Busy) string
}

func (t table) columns() []column {
	all := []column{{"NEXT", 4, func(c insight.Busy) string { return fmt.Sprint(c.NextLevel) }}}
	add := func(when bool, heading string, width int, value func(c insight.Busy) string) {
		if when {
			all = append(all, column{heading, width, value})
		}
	}
	both := t.byCount && t.byLoad
	number := "COUNT/LOAD"
	switch {
	case t.byCount && !both:
		number = "COUNT"
	case t.byLoad && !both:
		number = "LOAD"
	}
	add(both && !t.narrow, "RULE", 5, func(c insight.Busy) string { return strings.TrimPrefix(c.Rule, "by ") })
	add(true, number, 10, func(c insight.Busy) string { return c.Number() })
	if t.narrow {
		return all
	}
	add(t.byCount && t.documents, "DOCUMENTS", 9, func(c insight.Busy) string {
		if c.ByLoad() {
			return "-"
		}
		return insight.Group(c.Documents)
	})
	add(t.byLoad, "PENDING", 7, func(c insight.Busy) string {
		if c.ByCount() {
			return "-"
		}
		return insight.Group(c.Pending)
	})
	add(t.byLoad, "OLDEST", 9, func(c insight.Busy) string {
		if c.Pending == 0 {
			return "-"
		}
		return insight.Span(c.Oldest())
	})
	add(t.byCount && !(both && t.documents), "RESETS IN", 10, func(c insight.Busy) string {
		switch {
		case c.ByLoad():
			return "-"
		case c.ResetInMS == 0:
			return "never"
		}
		return insight.Span(c.ResetIn())
	})
	return all
}

func (t table) heading() string {
	var line strings.Builder
	for _, column := range t.columns() {
		fmt.Fprintf(&line, "%*s  ", column.width, column.heading)
	}
	return line.String() + "CUSTOMER"
}

func (t table) line(c insight.Busy) string {
	var line strings.Builder
	for _, column := range t.columns() {
		fmt.Fprintf(&line, "%*s  ", column.width, column.value(c))
	}
	line.WriteString(insight.Shown(c.Exact()))
	if c.Overridden() {
		line.WriteString(", overridden")
	}
	return line.String()
}

// corrupt is the line of a corrupt key, which has no level and no number.
func (t table) corrupt(c insight.Listed) string {
	var line strings.Builder
	for i, column := range t.columns() {
		text := "-"
		if i > 0 && strings.HasPrefix(column.heading, "COUNT") || column.heading == "LOAD" {
			text = "corrupt"
		}
		fmt.Fprintf(&line, "%*s  ", column.width, text)
	}
	line.WriteString(insight.Shown(c.Exact()))
	if strings.HasSuffix(c.Corrupt, ":override") {
		line.WriteString(", the override")
	}
	return line.String()
}
