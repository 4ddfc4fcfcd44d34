package insight

import (
	"context"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Override is a customer's override, for display.
type Override struct {
	Name
	Earliest priority.Level `json:"earliest,omitempty"`
	Latest   priority.Level `json:"latest,omitempty"`
	Says     string         `json:"says"`    // "pinned to level 2"
	LeftMS   int64          `json:"left_ms"` // 0: it has no end
	At       time.Time      `json:"at,omitzero"`
	Until    time.Time      `json:"until,omitzero"`
	By       string         `json:"by"` // empty: it was set by hand
	Why      string         `json:"why"`
}

// Left returns how long the override had left when it was read.
func (o *Override) Left() time.Duration { return milliseconds(o.LeftMS) }

// ByWhom says who has set it, and why.
func (o *Override) ByWhom() string {
	if o.By == "" {
		return "set by hand, so it is not known by whom"
	}
	return fmt.Sprintf("by %s: %s", Shown(o.By), Quoted(o.Why))
}

// Ends says until when it holds.
func (o *Override) Ends() string {
	if o.Until.IsZero() {
		return "without an end"
	}
	return fmt.Sprintf("until %s, for %s more", Moment(o.Until), Span(o.Left()))
}

// Says says what an override does: "pinned to level 2", "level 5 at the latest".
func Says(o priority.Override) string {
	switch {
	case o.Earliest == o.Latest:
		return fmt.Sprintf("pinned to level %d", o.Earliest)
	case o.Earliest == 0:
		return fmt.Sprintf("level %d at the latest", o.Latest)
	}
	return fmt.Sprintf("level %d at the earliest", o.Earliest)
}

// Overrides returns all overrides, the next to end first.
func (s *Snapshot) Overrides(ctx context.Context) ([]*Override, error) {
	found, err := s.Admin.Overrides(ctx)
	all := make([]*Override, len(found))
	for at, each := range found {
		all[at] = s.overrideOf(each)
	}
	return all, err
}

func (s *Snapshot) overrideOf(o control.Override) *Override {
	shown := &Override{Name: NameOf(o.Customer), Earliest: o.Bounds.Earliest, Latest: o.Bounds.Latest, Says: Says(o.Bounds), By: o.By, Why: o.Why}
	if !o.At.IsZero() {
		shown.At = o.At.UTC()
	}
	if !o.Until.IsZero() {
		shown.Until, shown.LeftMS = o.Until.UTC(), max(o.Until.Sub(s.Now).Milliseconds(), 1)
	}
	return shown
}

// Moment writes a time that people everywhere read alike.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }
