package main

import (
	"iter"

	"github.com/docpriority/priority"
)

// batch is what goes to a server at once: first the keys of the expired
// customers are deleted, then one document of each of customers is counted.
type batch struct {
	expired, customers []string
}

// batches cuts a trace into batches. A customer's second document begins the
// next one: so the server runs the script once for each document, and a key can
// be deleted before every document that needs it.
func batches(trace []document, policy priority.Policy) iter.Seq[batch] {
	return func(yield func(batch) bool) {
		interval := policy.ResetInterval.Milliseconds()
		deadlines := make(map[string]int64) // a document later than this resets the count
		within := make(map[string]bool)     // the customers of the batch
		var next batch
		for _, d := range trace {
			if within[d.customer] {
				if !yield(next) {
					return
				}
				next = batch{}
				clear(within)
			}
			deadline, known := deadlines[d.customer]
			expired := known && d.submitted > deadline
			if expired {
				next.expired = append(next.expired, d.customer)
			}
			if !known || expired || policy.ResetMode == priority.SinceLastUpdate {
				deadlines[d.customer] = d.submitted + interval
			}
			next.customers = append(next.customers, d.customer)
			within[d.customer] = true
		}
		if len(next.customers) > 0 {
			yield(next)
		}
	}
}
