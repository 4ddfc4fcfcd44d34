package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// table writes customers in columns; a column of the other rule has "-".
type table struct {
	reported bool // whether the customers come from workers' reports
	accounts bool // whether users submit for their accounts
	width    int  // of the screen; 0: no line is too long
}

var (
	reportedColumns = columns{{"LATEST", 6, 2}, {"NEXT", 4, 5}, {"COUNT/LOAD", 10, 1}, {"DOCUMENTS", 9, 6}, {"PENDING", 7, 4}, {"OLDEST", 9, 3}}
	keptColumns     = columns{{"NEXT", 4, 0}, {"RULE", -5, 0}, {"COUNT/LOAD", 10, 0}, {"PENDING", 7, 0}, {"OLDEST", 9, 0}, {"RESETS IN", 9, 0}}
)

// leastName is how much of a line is for the name.
const leastName = 14

func (t table) heading() string {
	who := "CUSTOMER"
	if t.accounts {
		who = "ACCOUNT (get names its users)"
	}
	if t.reported {
		return t.named(reportedColumns.heading(t.numbers()), who, "")
	}
	return t.named(keptColumns.heading(t.numbers()), who, "")
}

func (t table) line(b insight.Busy) string {
	next, rule, number, pending, oldest, resets, note := "-", "-", "-", "-", "-", "-", ""
	if state := b.State; state != nil {
		next, rule, number = fmt.Sprint(state.NextLevel), strings.TrimPrefix(state.Rule.String(), "by "), insight.Number(*state)
		switch {
		case state.Rule == priority.ByLoad:
			pending = insight.Group(state.Pending)
		case state.Rule == priority.ByCount && state.ResetIn == 0:
			resets = "never"
		case state.Rule == priority.ByCount:
			resets = insight.Span(state.ResetIn)
		}
		if state.Pending > 0 {
			oldest = insight.Span(state.Oldest)
		}
		if state.Bounds != (priority.Bounds{}) {
			note = ", overridden"
		}
	}
	if b.Corrupt != "" {
		number, note = "corrupt", ", "+insight.Shown(b.Corrupt)
	}
	if t.reported {
		return t.named(reportedColumns.line(t.numbers(), fmt.Sprint(b.LatestLevel), next, number, insight.Group(b.Documents), pending, oldest), insight.Shown(b.Exact()), note)
	}
	return t.named(keptColumns.line(t.numbers(), next, rule, number, pending, oldest, resets), insight.Shown(b.Exact()), note)
}

// numbers is how much of a line is for the columns before the name.
func (t table) numbers() int {
	if t.width == 0 {
		return 1000
	}
	return t.width - 2 - leastName
}

// named adds a name to a line, with what is said of it if both fit.
func (t table) named(line, name, note string) string {
	line += "  "
	if t.width == 0 {
		return line + name + note
	}
	left := t.width - columnsOf(line)
	return line + cut(cut(name, max(left-columnsOf(note), leastName))+note, left)
}
