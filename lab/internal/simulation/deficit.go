package simulation

import "time"

// deficitRoundRobin (Shreedhar and Varghese 1995) gives each customer the same
// time in turn, of which the service times, known to it beforehand, are paid.
type deficitRoundRobin struct {
	roundRobin
	quantum time.Duration   // a turn's worth: the mean service time
	deficit []time.Duration // by customer: what is left of earlier turns
	granted bool            // the first in turns has had their quantum
}

func newDeficitRoundRobin(w *Workload) *deficitRoundRobin {
	return &deficitRoundRobin{
		roundRobin: *newRoundRobin(w),
		quantum:    w.meanService(),
		deficit:    make([]time.Duration, len(w.Customers)),
	}
}

func (s *deficitRoundRobin) Next(time.Duration) (int, bool) {
	for len(s.turns) > 0 {
		customer := s.turns[0]
		if !s.granted {
			s.deficit[customer] += s.quantum
			s.granted = true
		}
		if cost := s.documents[s.waiting.first[customer]].Service; cost <= s.deficit[customer] {
			s.deficit[customer] -= cost
			document := s.waiting.pop(customer)
			if s.waiting.empty(customer) {
				s.turns = s.turns[1:]
				s.deficit[customer], s.granted = 0, false
			}
			return document, true
		}
		s.turns = append(s.turns[1:], customer)
		s.granted = false
	}
	return 0, false
}
