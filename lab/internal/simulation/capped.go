package simulation

import (
	"strconv"
	"strings"
	"time"
)

// capped serves first come, first served, but passes over a customer who already has as many
// documents on servers as a customer may have. So servers can be idle while documents wait. It
// is a limit of concurrency by key, as River Pro and Inngest document theirs.
type capped struct {
	documents []Document
	most      int32   // documents of one customer on servers
	waiting   *queues // by customer
	inFlight  []int32 // by customer
	// eligible has the first document of each customer who has one waiting and is below the cap.
	eligible heap[arrival]
}

// arrival is a document; those that arrived first come first.
type arrival int32

func (a arrival) Before(other arrival) bool { return a < other }

// shareOfCap reads a name such as "cap/4": a customer has at most a quarter of the servers,
// rounded up.
func shareOfCap(name string) (parts int, ok bool) {
	text, ok := strings.CutPrefix(name, capPrefix)
	if !ok {
		return 0, false
	}
	parts, err := strconv.Atoi(text)
	return parts, err == nil && parts >= 1
}

func newCapped(w *Workload, servers, parts int) *capped {
	return &capped{
		documents: w.Documents,
		most:      int32(max((servers+parts-1)/parts, 1)),
		waiting:   newQueues(len(w.Customers), len(w.Documents)),
		inFlight:  make([]int32, len(w.Customers)),
	}
}

func (s *capped) Submit(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
	wasEmpty := s.waiting.empty(customer)
	s.waiting.push(customer, document)
	if wasEmpty {
		s.enter(customer)
	}
	return nil
}

func (s *capped) Next(time.Duration) (int, bool) {
	if len(s.eligible) == 0 {
		return 0, false
	}
	document := int(s.eligible.pop())
	customer := int(s.documents[document].Customer)
	s.waiting.pop(customer)
	s.inFlight[customer]++
	s.enter(customer)
	return document, true
}

func (s *capped) Done(document int, _ time.Duration) error {
	customer := int(s.documents[document].Customer)
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
