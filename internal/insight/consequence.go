package insight

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

// Consequence is what an override does to a customer's documents, and to others'.
type Consequence struct {
	From priority.Level `json:"from"` // of the next document without it
	To   priority.Level `json:"to"`   // of the next document with it

	// Documents is how many documents the customer sent in the last minute, by the
	// reports. Pending is how many wait or are worked on, if Submit counts them.
	Documents int64 `json:"documents"`
	Pending   int64 `json:"pending"`

	// Others is how many documents others sent in that minute that will share a level with
	// the customer's or go behind them, and did not before.
	Others int64 `json:"others"`

	Says string `json:"says"`
}

const (
	manyDocuments = 100 // of one customer, pending or in a minute

	// Fewer are many too, if they are such a share of all documents.
	someDocuments = 20
	largeShare    = 5
)

// ConsequenceOf says what an override does, from what is known of the customer and what
// all workers report. The last level is the queue's.
func ConsequenceOf(customer string, state priority.State, override priority.Override, last priority.Level, all fleet.Totals) Consequence {
	c := Consequence{From: state.NextLevel, To: override.Level(state.RuleLevel, last), Pending: state.Pending}
	own := fleet.Busy{}
	for _, b := range all.Busiest {
		if b.Customer == customer {
			own = b
		}
	}
	c.Documents = own.Documents
	switch {
	case c.To == c.From:
		c.Says = fmt.Sprintf("No change now: the next document has level %d without it too.", c.From)
		return c
	case c.To > c.From:
		c.Says = fmt.Sprintf("This is worse for %s: the next document gets level %d instead of %d.", Shown(customer), c.To, c.From)
		return c
	}
	c.Says = fmt.Sprintf("This is better for %s: the next document gets level %d instead of %d.", Shown(customer), c.To, c.From)
	for level := c.To; level <= c.From; level++ {
		c.Others += all.ByCount[level] + all.ByLoad[level]
	}
	if own.Level >= c.To && own.Level <= c.From {
		c.Others = max(c.Others-own.Documents, 0)
	}
	if c.floods(all.Documents()) {
		c.Says += " " + c.whoWaits(customer, all.Documents())
	}
	return c
}

// floods reports whether the customer sends enough for others to notice.
func (c Consequence) floods(all int64) bool {
	return max(c.Documents, c.Pending) >= manyDocuments || c.Documents >= someDocuments && c.Documents*largeShare >= all
}

// whoWaits says whose documents will wait for a flood.
func (c Consequence) whoWaits(customer string, all int64) string {
	var sends []string
	if c.Documents > 0 {
		sends = append(sends, fmt.Sprintf("sent %s of the fleet's %s in the last minute", Group(c.Documents), Plural(all, "document")))
	}
	if c.Pending > 0 {
		sends = append(sends, fmt.Sprintf("has %s pending", Group(c.Pending)))
	}
	levels := fmt.Sprintf("level %d", c.To)
	if c.From > c.To {
		levels = fmt.Sprintf("levels %d to %d", c.To, c.From)
	}
	who := fmt.Sprintf("the documents of others at %s", levels)
	if all > 0 {
		who = fmt.Sprintf("%s of others a minute, at %s,", Plural(c.Others, "document"), levels)
	}
	return fmt.Sprintf("But others will wait: %s %s. At level %d, %s wait for its next ones.", Shown(customer), strings.Join(sends, " and "), c.To, who)
}
