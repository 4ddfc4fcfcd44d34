package laws

import (
	"context"
	"fmt"
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
	return fmt.Sprintf("%s(%.200s)", c.operation, fmt.Sprint(c.customers, c.n, c.documents, c.costs, c.delays))
}

func (a *answer) String() string {
	return fmt.Sprintf("%.400s; %s", fmt.Sprintf("%+v %+v %+v", a.decisions, a.state, a.ended), observe.Outcome(a.err))
}

func describe(s priority.State) string { return fmt.Sprintf("%+v", s) }
