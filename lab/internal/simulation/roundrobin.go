package simulation

import "time"

// roundRobin serves one document of each customer in turn.
type roundRobin struct {
	documents []Document
	waiting   *queues // by customer
	turns     ring    // of the customers who have documents waiting
}

func newRoundRobin(w *Workload) *roundRobin {
	return &roundRobin{documents: w.Documents, waiting: newQueues(len(w.Customers), len(w.Documents))}
}

func (s *roundRobin) Submit(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
	if s.waiting.empty(customer) {
		s.turns.push(customer)
	}
	s.waiting.push(customer, document)
	return nil
}

func (s *roundRobin) Next(time.Duration) (int, bool) {
	if s.turns.empty() {
		return 0, false
	}
	customer := s.turns.pop()
	document := s.waiting.pop(customer)
	if !s.waiting.empty(customer) {
		s.turns.push(customer)
	}
	return document, true
}

func (s *roundRobin) Done(int, time.Duration) error { return nil }
