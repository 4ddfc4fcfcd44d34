package simulation

import "time"

// leastInFlight serves the customer with the fewest documents on servers first.
type leastInFlight struct {
	byCustomer
	inFlight []int32 // by customer
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
	return &leastInFlight{byCustomer: newByCustomer(w), inFlight: make([]int32, len(w.Customers))}
}

func (s *leastInFlight) Submit(document int, _ time.Duration) error {
	if customer, alone := s.add(document); alone {
		s.enter(customer)
	}
	return nil
}

func (s *leastInFlight) Next(time.Duration) (int, bool) {
	for len(s.customers) > 0 {
		entry := s.customers.pop()
		customer := s.customerOf(int(entry.document))
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
	customer := s.customerOf(document)
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

// capped serves first come, first served, but passes over a customer who already has as many
// documents on servers as a customer may have. So servers can be idle while documents wait. It
// is a limit of concurrency by key, as River Pro and Inngest document theirs.
type capped struct {
	byCustomer
	most     int32   // documents of one customer on servers
	inFlight []int32 // by customer
	// eligible has the first document of each customer who has one waiting and is below the cap.
	eligible heap[arrival]
}

// arrival is a document; those that arrived first come first.
type arrival int32

func (a arrival) Before(other arrival) bool { return a < other }

// newCapped gives a customer at most one of so many parts of the servers, rounded up. With one
// part there is no cap.
func newCapped(w *Workload, servers, parts int) *capped {
	return &capped{byCustomer: newByCustomer(w), most: int32((servers + parts - 1) / parts), inFlight: make([]int32, len(w.Customers))}
}

func (s *capped) Submit(document int, _ time.Duration) error {
	if customer, alone := s.add(document); alone {
		s.enter(customer)
	}
	return nil
}

func (s *capped) Next(time.Duration) (int, bool) {
	if len(s.eligible) == 0 {
		return 0, false
	}
	document := int(s.eligible.pop())
	customer := s.customerOf(document)
	s.waiting.pop(customer)
	s.inFlight[customer]++
	s.enter(customer)
	return document, true
}

func (s *capped) Done(document int, _ time.Duration) error {
	customer := s.customerOf(document)
	wasFull := s.inFlight[customer] == s.most
	s.inFlight[customer]--
	if wasFull {
		s.enter(customer)
	}
	return nil
}

// enter adds a customer who is not in eligible, if they belong there.
func (s *capped) enter(customer int) {
	if !s.waiting.empty(customer) && s.inFlight[customer] < s.most {
		s.eligible.push(arrival(s.waiting.first[customer]))
	}
}
