package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Overridden is an override of one customer: what operators have recorded, and
// whether it is in force.
type Overridden struct {
	Name
	Earliest priority.Level `json:"earliest,omitempty"`
	Latest   priority.Level `json:"latest,omitempty"`
	Says     string         `json:"says"` // "pinned to level 2"
	LeftMS   int64          `json:"left_ms"`
	Version  int64          `json:"version"` // 0: it is not on record
	At       time.Time      `json:"at,omitzero"`
	Until    time.Time      `json:"until,omitzero"`
	By       string         `json:"by"`
	Why      string         `json:"why"`

	// InForce reports whether it decides the documents' levels. Found is what the
	// customer's key holds instead; empty: there is no key.
	InForce bool   `json:"in_force"`
	Found   string `json:"found,omitempty"`
}

// Override returns the bounds.
func (o *Overridden) Override() priority.Override {
	return priority.Override{Earliest: o.Earliest, Latest: o.Latest}
}

// Left returns how long the override had left when it was read.
func (o *Overridden) Left() time.Duration { return milliseconds(o.LeftMS) }

// Trouble says why it is not in force; empty: it is.
func (o *Overridden) Trouble() string {
	switch {
	case o.InForce:
		return ""
	case o.Found != "":
		return "not in force: its key holds " + Quoted(o.Found) + " instead"
	}
	return "not in force: its key is gone"
}

// line returns the row of a table.
func (o *Overridden) line() string {
	switch {
	case !o.InForce:
		return o.Says + ", " + o.Trouble()
	case o.LeftMS == 0:
		return o.Says + ", without an end"
	}
	return fmt.Sprintf("%s, for %s more", o.Says, Span(o.Left()))
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

// Overrides returns all recorded overrides that have not ended, the next to end first. An
// error comes from [control.Admin.Overrides], or says which rights are missing.
func (i *Inspector) Overrides(ctx context.Context) ([]*Overridden, error) {
	if i.Admin == nil {
		return nil, nil
	}
	held, err := i.Admin.Overrides(ctx)
	if err != nil {
		return nil, i.unread(err)
	}
	all := make([]*Overridden, len(held))
	for at, each := range held {
		all[at] = i.overriddenOf(each)
	}
	slices.SortFunc(all, func(a, b *Overridden) int {
		return cmp.Or(a.Until.Compare(b.Until), strings.Compare(a.Exact(), b.Exact()))
	})
	return all, nil
}

// OverrideOf returns a customer's recorded override, or the override in the customer's
// key; nil: neither exists. Errors are as in [Inspector.Overrides].
func (i *Inspector) OverrideOf(ctx context.Context, customer string) (*Overridden, error) {
	if i.Admin == nil {
		return nil, nil
	}
	held, err := i.Admin.OverrideOf(ctx, customer)
	if err != nil || held == nil {
		return nil, i.unread(err)
	}
	return i.overriddenOf(*held), nil
}

func (i *Inspector) overriddenOf(held control.Held) *Overridden {
	o := &Overridden{
		Name: NameOf(held.Customer), Earliest: held.Value.Earliest, Latest: held.Value.Latest,
		Version: held.Version, By: held.By, Why: held.Why, InForce: held.InForce, Found: held.Found,
	}
	switch {
	case held.Version > 0:
		o.Says, o.At = Says(held.Value), held.At.UTC()
	case held.Err != nil:
		o.Says = "it cannot be read"
	default:
		o.Says = "nothing is recorded"
	}
	if !held.Until.IsZero() {
		o.Until, o.LeftMS = held.Until.UTC(), max(held.Until.Sub(i.Now()).Milliseconds(), 1)
	}
	return o
}

// inForce returns the override that decides the level of the customer's next document, if
// it is not the recorded one.
func (i *Inspector) inForce(written *Overridden, customer string, state priority.State) *Overridden {
	if state.Override == (priority.Override{}) || written != nil && written.InForce {
		return written
	}
	held := state.Override // with both bounds
	switch {
	case held.Earliest == held.Latest:
	case held.Earliest <= priority.First:
		held.Earliest = 0
	default:
		held.Latest = 0
	}
	return &Overridden{
		Name: NameOf(customer), Earliest: held.Earliest, Latest: held.Latest,
		Says: Says(held), LeftMS: state.OverrideEndsIn.Milliseconds(), InForce: true,
	}
}

// Moment writes a time of day that people everywhere read alike.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// byWhom says who did something, and why.
func byWhom(by, why string) string { return fmt.Sprintf("by %s: %s", Shown(by), Quoted(why)) }
