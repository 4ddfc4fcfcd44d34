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
	reportedColumns = columns{{"LATEST", 6}, {"NEXT", 4}, {"COUNT/LOAD", 10}, {"DOCUMENTS", 9}, {"PENDING", 7}, {"OLDEST", 9}}
	keptColumns     = columns{{"NEXT", 4}, {"RULE", -5}, {"COUNT/LOAD", 10}, {"PENDING", 7}, {"OLDEST", 9}, {"RESETS IN", 9}}
)

// leastName is how much of a line is for the name before what is said of it.
const leastName = 14

func (t table) heading() string {
	who := "CUSTOMER"
	if t.accounts {
		who = "ACCOUNT (get names its users)"
	}
	if t.reported {
		return t.named(reportedColumns.heading(), who, "")
	}
	return t.named(keptColumns.heading(), who, "")
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
		return t.named(reportedColumns.line(fmt.Sprint(b.LatestLevel), next, number, insight.Group(b.Documents), pending, oldest), insight.Shown(b.Exact()), note)
	}
	return t.named(keptColumns.line(next, rule, number, pending, oldest, resets), insight.Shown(b.Exact()), note)
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
