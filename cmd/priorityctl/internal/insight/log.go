package insight

import (
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Logged is a line of the log.
type Logged struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	By      string    `json:"by"`
	Why     string    `json:"why"`
	Kind    string    `json:"kind"` // policy, override, reset, forget or import
	*Name             // the customer of an override or a reset
	Version int64     `json:"version,omitempty"` // of a policy
	Says    string    `json:"says"`              // what was done, a sentence without a full stop

	Earliest priority.Level `json:"earliest,omitempty"` // of an override
	Latest   priority.Level `json:"latest,omitempty"`
	Until    time.Time      `json:"until,omitzero"`
	Rules    *control.Rules `json:"rules,omitempty"`
}

// LoggedOf returns an entry of the log for display.
func LoggedOf(entry control.Entry) Logged {
	l := Logged{ID: entry.ID, At: entry.At.UTC(), By: entry.By, Why: entry.Why, Kind: entry.Kind, Says: Shown(entry.Kind)}
	who := Shown(entry.Customer)
	if entry.Customer != "" {
		name := NameOf(entry.Customer)
		l.Name = &name
	}
	switch entry.Kind {
	case "reset":
		l.Says = who + " reset"
	case "forget":
		l.Says = "a customer forgotten"
	case "import":
		l.Says = "an export imported"
	case "policy":
		l.Version, l.Rules = entry.Applied.Version, entry.Applied.Rules
		if l.Says = fmt.Sprintf("policy withdrawn (version %d): the workers' own options decide", l.Version); l.Rules != nil {
			l.Says = fmt.Sprintf("policy applied (version %d): %s", l.Version, Summary(filled(*l.Rules)))
		}
	case "override":
		if l.Says = who + ": override ended"; entry.Override != (priority.Override{}) {
			l.Earliest, l.Latest, l.Until = entry.Override.Earliest, entry.Override.Latest, entry.Until.UTC()
			l.Says = fmt.Sprintf("%s %s, for %s", who, Says(entry.Override), Span(max(entry.Until.Sub(entry.At).Round(time.Second), 0)))
		}
	}
	return l
}
