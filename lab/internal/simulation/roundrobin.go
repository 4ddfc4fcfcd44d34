package simulation

import "time"

// roundRobin serves one document of each customer in turn.
type roundRobin struct {
	byCustomer
	turns []int // the customers who have documents waiting, each once
}

func newRoundRobin(w *Workload) *roundRobin { return &roundRobin{byCustomer: newByCustomer(w)} }

func (s *roundRobin) Submit(document int, _ time.Duration) error {
	if customer, alone := s.add(document); alone {
		s.turns = append(s.turns, customer)
	}
	return nil
}

func (s *roundRobin) Next(time.Duration) (int, bool) {
	if len(s.turns) == 0 {
		return 0, false
	}
	customer := s.turns[0]
	s.turns = s.turns[1:]
	document := s.waiting.pop(customer)
	if !s.waiting.empty(customer) {
		s.turns = append(s.turns, customer)
	}
	return document, true
}
