package simulation

import (
	"math"
	"slices"
	"time"
)

// fairShare serves the customer with the least usage first. A document's service
// time is added to the usage when it begins, and usage decays by half in
// halfLife.
type fairShare struct {
	byCustomer
	customers heap[share]
	// usage is the binary logarithm of a customer's usage at the time 0: what is
	// used later weighs more. So it changes only when something is added.
	usage []float64
}

const halfLife = 300 * time.Second

type share struct {
	usage    float64
	document int32 // the customer's first
}

func (s share) Before(other share) bool {
	if s.usage != other.usage {
		return s.usage < other.usage
	}
	return s.document < other.document
}

func newFairShare(w *Workload) *fairShare {
	return &fairShare{byCustomer: newByCustomer(w), usage: slices.Repeat([]float64{math.Inf(-1)}, len(w.Customers))}
}

func (s *fairShare) Submit(document int, _ time.Duration) error {
	if customer, alone := s.add(document); alone {
		s.customers.push(share{s.usage[customer], int32(document)})
	}
	return nil
}

func (s *fairShare) Next(now time.Duration) (int, bool) {
	if len(s.customers) == 0 {
		return 0, false
	}
	document := int(s.customers.pop().document)
	customer := s.customerOf(document)
	s.waiting.pop(customer)
	added := math.Log2(s.documents[document].Service.Seconds()) + float64(now)/float64(halfLife)
	s.usage[customer] = addLogarithms(s.usage[customer], added)
	if !s.waiting.empty(customer) {
		s.customers.push(share{s.usage[customer], s.waiting.first[customer]})
	}
	return document, true
}

// addLogarithms returns the binary logarithm of 2^a + 2^b.
func addLogarithms(a, b float64) float64 {
	a, b = max(a, b), min(a, b)
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log2(1+math.Exp2(b-a))
}
