// Package simulation lets customers' documents wait for servers in virtual time,
// under the levels of the module and under other ways to schedule, and
// measures who waits how long.
package simulation

import (
	"slices"
	"time"
)

// Document is one document of a customer. All times are since the start of the
// simulation.
type Document struct {
	Customer  int32         // an index of Workload.Customers
	Submitted time.Duration // when it is due
	Service   time.Duration
	Ahead     time.Duration // how long before it is due it is enqueued
}

// Workload is what the servers have to do.
type Workload struct {
	Customers []string   // by Document.Customer
	Documents []Document // in the order in which they are submitted

	// Groups names the groups of customers that are measured apart, and GroupOf
	// has the index of each customer's.
	Groups  []string
	GroupOf []uint8

	// Apart are the groups, by index, that are not among "the lightest half" and
	// "the worst customer": those that the scenario is made of.
	Apart []bool

	// Weights are the customers' shares of what there is, to each other's. Nil: all are alike.
	Weights []float64

	// Documents submitted in [From, To) are measured.
	From, To time.Duration

	// Outage is when Redis cannot be reached. Failover ends when a replica takes
	// over that has not heard of what was written in it. Zero: there is none.
	Outage, Failover Span
}

// Span is a time from a moment to another, the latter not included.
type Span struct{ From, To time.Duration }

// Names of groups.
const (
	Others  = "others"
	Flooder = "flooder"
	Second  = "second"  // floods after the flooder
	Users   = "users"   // of one account
	Planner = "planner" // schedules documents
	Light   = "light"
	Heavy   = "heavy"
)

// newWorkload returns one with customers in the group of others.
func newWorkload(customers []string) *Workload {
	return &Workload{
		Customers: customers,
		Groups:    []string{Others},
		GroupOf:   make([]uint8, len(customers)),
		Apart:     []bool{false},
	}
}

// setApart makes the customers from one on a group of their own.
func (w *Workload) setApart(group string, from int) {
	w.Groups = append(w.Groups, group)
	w.Apart = append(w.Apart, true)
	for i := from; i < len(w.Customers); i++ {
		w.GroupOf[i] = uint8(len(w.Groups) - 1)
	}
}

// sort brings the documents into the order in which they are submitted. Those of
// one moment keep the order in which they were added.
func (w *Workload) sort() {
	slices.SortStableFunc(w.Documents, func(a, b Document) int { return int(a.Submitted - b.Submitted) })
}

// early returns the documents, by index, that are enqueued before they are due, in the order in
// which they are.
func (w *Workload) early() (documents []int) {
	for i, d := range w.Documents {
		if d.Ahead > 0 {
			documents = append(documents, i)
		}
	}
	slices.SortStableFunc(documents, func(a, b int) int { return int(w.Documents[a].enqueued() - w.Documents[b].enqueued()) })
	return documents
}

func (d Document) enqueued() time.Duration { return d.Submitted - d.Ahead }
