package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// table writes customers in columns; a column of the other rule has "-".
type table struct {
	reported bool   // with the columns of the workers' reports
	number   string // the heading of counts and loads
}

func (t table) heading() string {
	if t.reported {
		return fmt.Sprintf("%4s  %4s  %10s  %9s  %7s  %9s  CUSTOMER", "LAST", "NEXT", t.number, "DOCUMENTS", "PENDING", "OLDEST")
	}
	return fmt.Sprintf("%4s  %-5s  %10s  %7s  %9s  %9s  CUSTOMER", "NEXT", "RULE", t.number, "PENDING", "OLDEST", "RESETS IN")
}

func (t table) line(c insight.Busy) string {
	next, rule, number, pending, oldest, resets, who := "-", "-", "corrupt", "-", "-", "-", insight.Shown(c.Exact())
	if s := c.State; s != nil {
		next, rule, number = fmt.Sprint(s.NextLevel), strings.TrimPrefix(s.Rule, "by "), s.Number()
		if s.ByLoad() {
			pending = insight.Group(s.Pending)
		}
		if s.Pending > 0 {
			oldest = insight.Span(s.Oldest())
		}
		if s.ByCount() {
			resets = "never"
		}
		if s.ResetInMS > 0 && s.ByCount() {
			resets = insight.Span(s.ResetIn())
		}
		if s.Overridden() {
			who += ", overridden"
		}
	}
	if t.reported {
		return fmt.Sprintf("%4d  %4s  %10s  %9s  %7s  %9s  %s", c.LastLevel, next, number, insight.Group(c.Documents), pending, oldest, who)
	}
	return fmt.Sprintf("%4s  %-5s  %10s  %7s  %9s  %9s  %s", next, rule, number, pending, oldest, resets, who)
}
