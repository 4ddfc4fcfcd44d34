package page

import (
	"fmt"
	"html/template"
	"math"
	"net/url"
	"strings"
	"time"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
)

// functions are what the templates call.
var functions = template.FuncMap{
	"group":    insight.Group,
	"plural":   insight.Plural,
	"plurals":  func(n int, noun string) string { return insight.Plural(int64(n), noun) },
	"moment":   insight.Moment,
	"stamp":    func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
	"resets":   insight.Resets,
	"turns":    func() string { return insight.Turns },
	"quoted":   insight.Quoted,
	"shown":    insight.Shown,
	"span":     insight.Span,
	"rules":    insight.RulesSummary,
	"about":    about,
	"rate":     rate,
	"spark":    spark,
	"bar":      bar,
	"followed": func() string { return insight.Span(control.FollowedWithin) },
	"bare":     func(text string) string { return strings.TrimPrefix(strings.TrimPrefix(text, "load "), "count ") }, // the heading has the word
	"since":    func(at time.Time) string { return insight.Span(time.Since(at).Round(time.Second)) },
	"customer": func(customer string) string { return "customer?" + url.Values{"c": {customer}}.Encode() },
}

// about writes a wait in two digits, as waits are not measured more exactly.
func about(wait time.Duration) string {
	unit := time.Millisecond
	for wait/unit >= 100 && unit < 10*time.Second {
		unit *= 10
	}
	return insight.Span(wait.Round(min(unit, time.Second)))
}

// rate writes a rate per second.
func rate(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate < 0.01:
		return "<0.01"
	case rate < 1:
		return fmt.Sprintf("%.2f", rate)
	case rate < 100:
		return fmt.Sprintf("%.1f", rate)
	}
	return insight.Group(int64(math.Round(rate)))
}
