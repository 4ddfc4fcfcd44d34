package insight

import (
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
)

// Overridden is an override of one customer.
type Overridden struct {
	Name
	Earliest priority.Level `json:"earliest,omitempty"`
	Latest   priority.Level `json:"latest,omitempty"`
	Says     string         `json:"says"` // "pinned to level 2"
	LeftMS   int64          `json:"left_ms"`
	Version  int64          `json:"version"`
	At       time.Time      `json:"at"`
	Until    time.Time      `json:"until"`
	By       string         `json:"by"`
	Why      string         `json:"why"`
}

// Override returns what it does.
func (o *Overridden) Override() control.Override {
	return control.Override{Earliest: o.Earliest, Latest: o.Latest}
}

// Left is for how long the override still held when it was looked at.
func (o *Overridden) Left() time.Duration { return time.Duration(o.LeftMS) * time.Millisecond }

// OverrideOf returns the override of a customer that is in force; nil: there is none.
// It asks nobody: see [Inspector.Follow].
func (i *Inspector) OverrideOf(customer string) *Overridden {
	item, ok := i.override(customer)
	if !ok {
		return nil
	}
	return &Overridden{
		Name: NameOf(customer), Earliest: item.Value.Earliest, Latest: item.Value.Latest, Says: item.Value.String(),
		LeftMS:  max(item.Until.Sub(i.now()).Milliseconds(), 1),
		Version: item.Version, At: item.At.UTC(), Until: item.Until.UTC(), By: item.By, Why: item.Why,
	}
}

// Moment writes a time of day that people everywhere read alike.
func Moment(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") }

// byWhom says who did something, and why.
func byWhom(by, why string) string { return fmt.Sprintf("by %s: %s", Shown(by), Quoted(why)) }
