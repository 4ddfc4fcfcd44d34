package laws

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// call is a call of a Store.
type call struct {
	operation prioritytest.Operation
	customers []string // one, or those of a NextEach
	documents []string
	costs     []float64
	delays    []time.Duration
	n         int
	took      time.Duration // a document
}

// answer is what a call returned, with one error for each entry.
type answer struct {
	decisions []priority.Decision
	state     priority.State
	ended     []priority.Ended
	err       error
	errs      []error
}

// on makes the call.
func (c *call) on(ctx context.Context, store priority.Store) (a answer) {
	customer, document := c.customers[0], ""
	if len(c.documents) > 0 {
		document = c.documents[0]
	}
	one := func(d priority.Decision, err error) ([]priority.Decision, error) { return []priority.Decision{d}, err }
	switch c.operation {
	case prioritytest.Next:
		a.decisions, a.err = one(store.Next(ctx, customer))
	case prioritytest.NextN:
		a.decisions, a.err = store.NextN(ctx, customer, c.n)
	case prioritytest.NextEach:
		a.decisions, a.err = store.NextEach(ctx, c.customers)
	case prioritytest.Submit:
		a.decisions, a.err = one(store.Submit(ctx, customer, c.submitted()[0]))
	case prioritytest.SubmitN:
		a.decisions, a.err = store.SubmitN(ctx, customer, c.submitted())
	case prioritytest.Done:
		var ended priority.Ended
		ended, a.err = store.Done(ctx, customer, document, c.took)
		a.ended = []priority.Ended{ended}
	case prioritytest.DoneN:
		a.ended, a.err = store.DoneN(ctx, customer, c.documents, c.took*time.Duration(len(c.documents)))
	case prioritytest.Peek:
		a.state, a.err = store.Peek(ctx, customer)
	case prioritytest.Reset:
		a.err = store.Reset(ctx, customer)
	}
	a.errs = itemerrors.Of(a.err, c.entries())
	return a
}

// submitted returns the documents with their costs and delays.
func (c *call) submitted() []priority.Document {
	submitted := named.Documents(c.documents...)
	for i, cost := range c.costs {
		submitted[i].Cost = cost
	}
	for i, delay := range c.delays {
		submitted[i].Delay = delay
	}
	return submitted
}

// entries is how many documents the call is about; for a Peek and a Reset it is 1.
func (c *call) entries() int {
	switch c.operation {
	case prioritytest.NextN:
		return c.n
	case prioritytest.NextEach:
		return len(c.customers)
	case prioritytest.SubmitN, prioritytest.DoneN:
		return len(c.documents)
	}
	return 1
}

// customer returns the customer of an entry.
func (c *call) customer(entry int) string {
	if c.operation == prioritytest.NextEach {
		return c.customers[entry]
	}
	return c.customers[0]
}

func (c *call) String() string {
	text := fmt.Sprintf("%s(%q", c.operation, c.customers)
	switch {
	case c.n > 0:
		text += fmt.Sprint(", ", c.n)
	case len(c.documents) > 9:
		text += fmt.Sprintf(", %s … %s", c.documents[0], c.documents[len(c.documents)-1])
	case len(c.documents) > 0:
		text += ", " + strings.Join(c.documents, " ")
	}
	if len(c.delays) > 0 {
		text += fmt.Sprint(", in ", c.delays[:min(len(c.delays), 9)])
	}
	return text + ")"
}

func (a *answer) String() string {
	var parts []string
	for i, d := range a.decisions {
		if i == 3 && len(a.decisions) > 4 {
			parts = append(parts, "…")
			break
		}
		part := fmt.Sprintf("%d by count %d", d.Level, d.Count)
		if d.Pending > 0 {
			part = fmt.Sprintf("%d by load %v, %d pending", d.Level, d.Load, d.Pending)
		}
		if d.Degraded {
			part += ", degraded"
		}
		parts = append(parts, part)
	}
	if a.state != (priority.State{}) {
		parts = append(parts, describe(a.state))
	}
	for i, e := range a.ended {
		if e.Level > 0 {
			parts = append(parts, fmt.Sprintf("[%d] ended after %v", i, e.Latency))
		}
	}
	return strings.Join(append(parts, observe.Outcome(a.err)), "; ")
}

// describe shows a state in short.
func describe(s priority.State) string {
	return fmt.Sprintf("%v: level %d, next %d, count %d for %v, load %v, %v recent, cost %v, %d pending, %d of a flood, oldest %v, latency %v, lease %v, %d scheduled; account: load %v, %d of a flood",
		s.Rule, s.Level, s.NextLevel, s.Count, s.ResetIn, s.Load, s.Recent, s.Cost, s.Pending, s.PendingFlood, s.Oldest, s.Latency, s.Lease,
		s.Scheduled, s.AccountLoad, s.AccountFlood)
}
