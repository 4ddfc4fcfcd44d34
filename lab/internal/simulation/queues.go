package simulation

import "time"

// queues are first-in-first-out queues of documents: one a level, or one a
// customer. A document is in one of them at most.
type queues struct {
	first, last []int32 // by queue; -1: it is empty
	next        []int32 // by document
}

func newQueues(count, documents int) *queues {
	q := &queues{first: make([]int32, count), last: make([]int32, count), next: make([]int32, documents)}
	for i := range q.first {
		q.first[i] = -1
	}
	return q
}

func (q *queues) empty(queue int) bool { return q.first[queue] < 0 }

func (q *queues) push(queue, document int) {
	q.next[document] = -1
	if q.empty(queue) {
		q.first[queue] = int32(document)
	} else {
		q.next[q.last[queue]] = int32(document)
	}
	q.last[queue] = int32(document)
}

func (q *queues) pop(queue int) (document int) {
	document = int(q.first[queue])
	q.first[queue] = q.next[document]
	return document
}

// byCustomer has a queue for each customer. Those who schedule by the customer embed it.
type byCustomer struct {
	documents []Document
	waiting   *queues // by customer
}

func newByCustomer(w *Workload) byCustomer {
	return byCustomer{w.Documents, newQueues(len(w.Customers), len(w.Documents))}
}

func (s *byCustomer) customerOf(document int) int { return int(s.documents[document].Customer) }

// add adds a document to its customer's queue, and reports whether it is alone there.
func (s *byCustomer) add(document int) (customer int, alone bool) {
	customer = s.customerOf(document)
	alone = s.waiting.empty(customer)
	s.waiting.push(customer, document)
	return customer, alone
}

func (*byCustomer) Done(int, time.Duration) error { return nil }
