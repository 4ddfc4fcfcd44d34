package main

import (
	"iter"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/trace"
)

// batch is what goes to a server at once: first the keys of the expired
// customers are deleted, then one document of each of customers is counted.
type batch struct {
	expired, customers []string
}

// batches cuts a trace into batches. A customer's second document begins the
// next one: so the server runs the script once for each document, and a key can
// be deleted before every document that needs it.
func batches(documents []trace.Document, policy priority.Policy) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		deadlines := make(map[string]time.Duration) // a document later than this resets the count
		within := make(map[string]bool)             // the customers of the batch
		var next batch
		for _, d := range documents {
			if within[d.Customer] {
				if !yield(next) {
					return
				}
				next = batch{}
				clear(within)
			}
			deadline, known := deadlines[d.Customer]
			expired := known && d.Submitted > deadline
			if expired {
				next.expired = append(next.expired, d.Customer)
			}
			if !known || expired || policy.ResetMode == priority.SinceLastUpdate {
				deadlines[d.Customer] = d.Submitted + policy.ResetInterval
			}
			next.customers = append(next.customers, d.Customer)
			within[d.Customer] = true
		}
		if len(next.customers) > 0 {
			yield(next)
		}
	}
}
