package simulation

import "time"

// stride gives each document a place when it arrives: one after the customer's
// last one, or after what is being served if that is later. It is stride
// scheduling (Waldspurger and Weihl 1995) for a queue with fixed priorities.
type stride struct {
	documents []Document
	waiting   heap[placed]
	pass      []int64 // by customer: their next document's place
	now       int64   // the place of what was last given out
}

func newStride(w *Workload) *stride {
	return &stride{documents: w.Documents, pass: make([]int64, len(w.Customers))}
}

type placed struct {
	place    int64
	document int32
}

func (p placed) Before(other placed) bool {
	if p.place != other.place {
		return p.place < other.place
	}
	return p.document < other.document
}

func (s *stride) Submit(document int, _ time.Duration) error {
	pass := &s.pass[s.documents[document].Customer]
	*pass = max(*pass, s.now)
	s.waiting.push(placed{*pass, int32(document)})
	*pass++
	return nil
}

func (s *stride) Next(time.Duration) (int, bool) {
	if len(s.waiting) == 0 {
		return 0, false
	}
	first := s.waiting.pop()
	s.now = first.place
	return int(first.document), true
}

func (s *stride) Done(int, time.Duration) error { return nil }
