package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/insight"
)

// table writes customers in columns, with the columns of the rules by which they are
// counted.
type table struct {
	byCount, byLoad bool // some customers are counted by it
	reported        bool // the workers' reports on the customers are known
}

// column is a column of a table. Rows of the other rule have "-" in it.
type column struct {
	heading string
	width   int
	value   func(c insight.Busy) string
}

// ofState is a value that a corrupt customer does not have.
func ofState(value func(s insight.State) string) func(c insight.Busy) string {
	return func(c insight.Busy) string {
		if c.State == nil {
			return "-"
		}
		return value(*c.State)
	}
}

func (t table) columns() []column {
	var all []column
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
	add(t.reported, "LAST", 4, func(c insight.Busy) string { return fmt.Sprint(c.LastLevel) })
	add(true, "NEXT", 4, ofState(func(s insight.State) string { return fmt.Sprint(s.NextLevel) }))
	add(both, "RULE", 5, ofState(func(s insight.State) string { return strings.TrimPrefix(s.Rule, "by ") }))
	add(true, number, 10, func(c insight.Busy) string {
		if c.State == nil {
			return "corrupt"
		}
		return c.Number()
	})
	add(t.reported, "DOCUMENTS", 9, func(c insight.Busy) string { return insight.Group(c.Documents) })
	add(t.byLoad, "PENDING", 7, ofState(func(s insight.State) string {
		if s.ByCount() {
			return "-"
		}
		return insight.Group(s.Pending)
	}))
	add(t.byLoad, "OLDEST", 9, ofState(func(s insight.State) string {
		if s.Pending == 0 {
			return "-"
		}
		return insight.Span(s.Oldest())
	}))
	add(t.byCount && !(both && t.reported), "RESETS IN", 10, ofState(func(s insight.State) string {
		switch {
		case s.ByLoad():
			return "-"
		case s.ResetInMS == 0:
			return "never"
		}
		return insight.Span(s.ResetIn())
	}))
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
	if c.State != nil && c.Overridden() {
		line.WriteString(", overridden")
	}
	return line.String()
}
