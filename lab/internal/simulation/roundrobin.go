package simulation

import "time"

// roundRobin serves one document of each customer in turn.
type roundRobin struct {
	byCustomer
	turns ring // of the customers who have documents waiting
}

func newRoundRobin(w *Workload) *roundRobin { return &roundRobin{byCustomer: newByCustomer(w)} }

func (s *roundRobin) Submit(document int, _ time.Duration) error {
	if customer, alone := s.add(document); alone {
		s.turns.push(customer)
	}
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
