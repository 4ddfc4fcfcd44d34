package simulation

import "time"

// leastInFlight serves the customer with the fewest documents on servers first.
type leastInFlight struct {
	documents []Document
	waiting   *queues // by customer
	inFlight  []int32 // by customer
	// customers has an entry for each customer with documents waiting, and
	// entries that are not true any more.
	customers heap[flight]
}

type flight struct {
	inFlight int32
	document int32 // the customer's first
}

func (f flight) Before(other flight) bool {
	if f.inFlight != other.inFlight {
		return f.inFlight < other.inFlight
	}
	return f.document < other.document
}

func newLeastInFlight(w *Workload) *leastInFlight {
	return &leastInFlight{
		documents: w.Documents,
		waiting:   newQueues(len(w.Customers), len(w.Documents)),
		inFlight:  make([]int32, len(w.Customers)),
	}
}

func (s *leastInFlight) Submit(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
	wasEmpty := s.waiting.empty(customer)
	s.waiting.push(customer, document)
	if wasEmpty {
		s.enter(customer)
	}
	return nil
}

func (s *leastInFlight) Next(time.Duration) (int, bool) {
	for len(s.customers) > 0 {
		entry := s.customers.pop()
		customer := int(s.documents[entry.document].Customer)
		if s.waiting.first[customer] != entry.document || s.inFlight[customer] != entry.inFlight {
			continue
		}
		document := s.waiting.pop(customer)
		s.inFlight[customer]++
		s.enter(customer)
		return document, true
	}
	return 0, false
}

func (s *leastInFlight) Done(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
	s.inFlight[customer]--
	s.enter(customer)
	return nil
}

// enter makes a new entry for a customer, if they have documents waiting.
func (s *leastInFlight) enter(customer int) {
	if !s.waiting.empty(customer) {
		s.customers.push(flight{s.inFlight[customer], s.waiting.first[customer]})
	}
}
