package simulation

import (
	"math"
	"time"
)

// firstCome serves documents as they arrive.
type firstCome struct{ waiting *queues }

func newFirstCome(w *Workload) *firstCome {
	return &firstCome{newQueues(1, len(w.Documents))}
}

func (s *firstCome) Submit(document int, _ time.Duration) error {
	s.waiting.push(0, document)
	return nil
}

func (s *firstCome) Next(time.Duration) (int, bool) {
	if s.waiting.empty(0) {
		return 0, false
	}
	return s.waiting.pop(0), true
}

func (s *firstCome) Done(int, time.Duration) error { return nil }

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

// deficitRoundRobin (Shreedhar and Varghese 1995) gives each customer the same
// time in turn, of which the service times, known to it beforehand, are paid.
type deficitRoundRobin struct {
	roundRobin
	quantum time.Duration   // a turn's worth: the mean service time
	deficit []time.Duration // by customer: what is left of earlier turns
	granted bool            // the first in turns has had their quantum
}

func newDeficitRoundRobin(w *Workload) *deficitRoundRobin {
	var total time.Duration
	for _, d := range w.Documents {
		total += d.Service
	}
	return &deficitRoundRobin{
		roundRobin: *newRoundRobin(w),
		quantum:    max(total/time.Duration(max(len(w.Documents), 1)), 1),
		deficit:    make([]time.Duration, len(w.Customers)),
	}
}

func (s *deficitRoundRobin) Next(time.Duration) (int, bool) {
	for !s.turns.empty() {
		customer := s.turns.peek()
		if !s.granted {
			s.deficit[customer] += s.quantum
			s.granted = true
		}
		if cost := s.documents[s.waiting.first[customer]].Service; cost <= s.deficit[customer] {
			s.deficit[customer] -= cost
			document := s.waiting.pop(customer)
			if s.waiting.empty(customer) {
				s.turns.pop()
				s.deficit[customer], s.granted = 0, false
			}
			return document, true
		}
		s.turns.push(s.turns.pop())
		s.granted = false
	}
	return 0, false
}

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

// fairShare serves the customer with the least usage first. A document's service
// time is added to the usage when it begins, and usage decays by half in
// halfLife.
type fairShare struct {
	documents []Document
	waiting   *queues // by customer
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
	s := &fairShare{
		documents: w.Documents,
		waiting:   newQueues(len(w.Customers), len(w.Documents)),
		usage:     make([]float64, len(w.Customers)),
	}
	for i := range s.usage {
		s.usage[i] = math.Inf(-1)
	}
	return s
}

func (s *fairShare) Submit(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
	if s.waiting.empty(customer) {
		s.customers.push(share{s.usage[customer], int32(document)})
	}
	s.waiting.push(customer, document)
	return nil
}

func (s *fairShare) Next(now time.Duration) (int, bool) {
	if len(s.customers) == 0 {
		return 0, false
	}
	document := int(s.customers.pop().document)
	customer := int(s.documents[document].Customer)
	s.waiting.pop(customer)
	added := math.Log2(s.documents[document].Service.Seconds()) + float64(now)/float64(halfLife)
	s.usage[customer] = addLogarithms(s.usage[customer], added)
	if !s.waiting.empty(customer) {
		s.customers.push(share{s.usage[customer], s.waiting.first[customer]})
	}
	return document, true
}

func (s *fairShare) Done(int, time.Duration) error { return nil }

// addLogarithms returns the binary logarithm of 2^a + 2^b.
func addLogarithms(a, b float64) float64 {
	a, b = max(a, b), min(a, b)
	if math.IsInf(b, -1) {
		return a
	}
	return a + math.Log2(1+math.Exp2(b-a))
}

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
