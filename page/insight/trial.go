package insight

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// TrialReport is what the fleet's workers have seen of the rules that are on trial, or
// were last: how many documents would have got which other level.
type TrialReport struct {
	Version int64          `json:"version"`
	Running bool           `json:"running"`
	Rules   *control.Rules `json:"policy,omitempty"` // while it runs
	At      time.Time      `json:"at,omitzero"`      // since when, by whom and why, while it runs
	By      string         `json:"by,omitempty"`
	Why     string         `json:"why,omitempty"`

	Documents int64   `json:"documents"`
	Earlier   Part    `json:"earlier"` // would have got a level that is processed earlier
	Same      Part    `json:"same"`
	Later     Part    `json:"later"`
	Moves     []Moves `json:"moves"` // by level; those of documents whose level is the same too
}

// Part is some of all documents.
type Part struct {
	Documents int64   `json:"documents"`
	Share     float64 `json:"share"` // of 1
}

// Moves is how many documents with a level would have got another.
type Moves struct {
	From priority.Level `json:"from"`
	To   priority.Level `json:"to"`
	Part
}

// ErrNoTrial: nothing is on trial, and nothing was within the last 30 days.
var ErrNoTrial = errors.New("nothing is on trial, and nothing was within the last 30 days")

// Trial reports on the rules on trial, or on the last ones. An error is that of
// [control.Admin], or [ErrNoTrial]. Follow comes before it.
func (i *Inspector) Trial(ctx context.Context) (*TrialReport, error) {
	if i.Admin == nil || i.Document == nil {
		return nil, ErrNoTrial
	}
	version, total, err := i.Admin.Total(ctx)
	if err != nil {
		return nil, err
	}
	if i.Document.Trial == nil && version == 0 {
		return nil, ErrNoTrial
	}
	return trialReport(i.Document.Trial, version, total), nil
}

// trialReport makes a report of a total, which may be that of an earlier trial.
func trialReport(running *control.Item[control.Rules], version int64, total []control.Moved) *TrialReport {
	r := &TrialReport{Version: version, Moves: []Moves{}}
	if running != nil {
		if version != running.Version {
			total = nil // no worker has told anything yet
		}
		r.Version, r.Running, r.Rules = running.Version, true, &running.Value
		r.At, r.By, r.Why = running.At.UTC(), running.By, running.Why
	}
	for _, moved := range total {
		r.Documents += moved.Documents
		part := &r.Same
		switch {
		case moved.To < moved.From:
			part = &r.Earlier
		case moved.To > moved.From:
			part = &r.Later
		}
		part.Documents += moved.Documents
		r.Moves = append(r.Moves, Moves{moved.From, moved.To, Part{Documents: moved.Documents}})
	}
	parts := []*Part{&r.Earlier, &r.Same, &r.Later}
	for i := range r.Moves {
		parts = append(parts, &r.Moves[i].Part)
	}
	for _, part := range parts {
		part.Share = float64(part.Documents) / float64(max(r.Documents, 1))
	}
	return r
}

// String is what a person reads on a terminal.
func (r *TrialReport) String() string {
	var out strings.Builder
	out.WriteString(Wrap(r.Summary(), 79) + "\n")
	if r.Earlier.Documents+r.Later.Documents == 0 {
		return out.String()
	}
	out.WriteString("\nLEVEL  ON TRIAL      DOCUMENTS\n")
	for _, m := range r.Moves {
		change := ""
		if m.From != m.To {
			change = fmt.Sprintf("  %+d", m.To-m.From)
		}
		fmt.Fprintf(&out, "%5d  %8d  %13s  %6s%s\n", m.From, m.To, Group(m.Documents), Percent(m.Share), change)
	}
	out.WriteString("\n+: processed later by the policy on trial. -: earlier.\n")
	return out.String()
}

// Summary says in a few sentences what the trial has shown.
func (r *TrialReport) Summary() string {
	summary := fmt.Sprintf("The trial of version %d is over.", r.Version)
	if r.Running {
		summary = fmt.Sprintf("On trial since %s is version %d, %s.", Moment(r.At), r.Version, byWhom(r.By, r.Why))
	}
	if r.Documents == 0 {
		return summary + " No worker has told of a document yet."
	}
	return summary + fmt.Sprintf(" Of %s, %s (%s) would be earlier, %s (%s) later, and %s (%s) the same.",
		Plural(r.Documents, "document"), Group(r.Earlier.Documents), Percent(r.Earlier.Share),
		Group(r.Later.Documents), Percent(r.Later.Share), Group(r.Same.Documents), Percent(r.Same.Share))
}

// Percent writes a share of 1.
func Percent(share float64) string {
	switch percent := 100 * share; {
	case percent > 0 && percent < 0.1:
		return "<0.1 %"
	case percent > 99.9 && percent < 100:
		return ">99.9 %"
	default:
		return strconv.FormatFloat(math.Round(10*percent)/10, 'f', -1, 64) + " %"
	}
}
