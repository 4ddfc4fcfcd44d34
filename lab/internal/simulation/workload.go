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
	Customer  int32 // an index of Workload.Customers
	Submitted time.Duration
	Service   time.Duration
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
	Second  = "second" // floods after the flooder
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

// addApart adds a customer in a group of their own.
func (w *Workload) addApart(group string) (customer int32) {
	w.Customers = append(w.Customers, group)
	w.Groups = append(w.Groups, group)
	w.Apart = append(w.Apart, true)
	w.GroupOf = append(w.GroupOf, uint8(len(w.Groups)-1))
	return int32(len(w.Customers) - 1)
}

// meanService returns the mean service time, 1 ns at least.
func (w *Workload) meanService() time.Duration {
	total := 0.0
	for _, d := range w.Documents {
		total += float64(d.Service)
	}
	return max(time.Duration(total/float64(max(len(w.Documents), 1))), 1)
}

// sort brings the documents into the order in which they are submitted. Those of
// one moment keep the order in which they were added.
func (w *Workload) sort() {
	slices.SortStableFunc(w.Documents, func(a, b Document) int { return int(a.Submitted - b.Submitted) })
}
