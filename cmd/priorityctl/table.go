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
}

func (t table) heading() string {
	who := "CUSTOMER"
	if t.accounts {
		who = "ACCOUNT (get names its users)"
	}
	if t.reported {
		return fmt.Sprintf("%6s  %4s  %10s  %9s  %7s  %9s  %s", "LATEST", "NEXT", "COUNT/LOAD", "DOCUMENTS", "PENDING", "OLDEST", who)
	}
	return fmt.Sprintf("%4s  %-5s  %10s  %7s  %9s  %9s  %s", "NEXT", "RULE", "COUNT/LOAD", "PENDING", "OLDEST", "RESETS IN", who)
}

func (t table) line(b insight.Busy) string {
	next, rule, number, pending, oldest, resets, who := "-", "-", "-", "-", "-", "-", insight.Shown(b.Exact())
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
			who += ", overridden"
		}
	}
	if b.Corrupt != "" {
		number = "corrupt"
		who += ", " + insight.Shown(b.Corrupt)
	}
	if t.reported {
		return fmt.Sprintf("%6d  %4s  %10s  %9s  %7s  %9s  %s", b.LatestLevel, next, number, insight.Group(b.Documents), pending, oldest, who)
	}
	return fmt.Sprintf("%4s  %-5s  %10s  %7s  %9s  %9s  %s", next, rule, number, pending, oldest, resets, who)
}
