package simulation

import (
	"math"
	"slices"
	"time"
)

// sqsFair serves as Amazon documents the fair queues of SQS. A customer with documents waiting is
// noisy
//
//   - with more than a tenth of what is on servers and at least 30 documents there,
//   - or with more than a tenth of the recent processing time,
//
// until none waits, or until they have sent nothing for five minutes. The page also says that they
// are served behind others until their shares are like those of quiet customers: with whileBusy a
// customer is noisy only as long as one of the two holds. Documents of quiet customers go first, in
// the order of arrival; then the noisy customer's with the fewest on servers.
//
// Amazon does not say how long "recent" is, and it matters. Here a document's service time counts
// from its end, and half as much after each recently.
//
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-fair-queues-detailed.html
type sqsFair struct {
	byCustomer
	whileBusy bool            // the second reading
	inFlight  []int           // by customer
	serving   int             // documents on servers
	sent      []time.Duration // by customer: when they sent last
	// usage is the binary logarithm of a customer's processing time at the time 0, as in fairShare.
	usage []float64
	total float64 // of all customers
	// quiet has the first document of each quiet customer who has one waiting.
	quiet heap[arrival]
	noisy []int // customers; each has documents waiting
}

const (
	noisyShare    = 0.1
	noisyInFlight = 30
	noisyFor      = 5 * time.Minute // after the last document that the customer sent
	recently      = 20 * time.Second
)

func newSQSFair(w *Workload, whileBusy bool) *sqsFair {
	return &sqsFair{
		byCustomer: newByCustomer(w),
		whileBusy:  whileBusy,
		inFlight:   make([]int, len(w.Customers)),
		sent:       make([]time.Duration, len(w.Customers)),
		usage:      slices.Repeat([]float64{math.Inf(-1)}, len(w.Customers)),
		total:      math.Inf(-1),
	}
}

func (s *sqsFair) Submit(document int, now time.Duration) error {
	customer, alone := s.add(document)
	s.sent[customer] = now
	if alone {
		s.quiet.push(arrival(document))
	}
	return nil
}

func (s *sqsFair) Next(now time.Duration) (int, bool) {
	s.noisy = slices.DeleteFunc(s.noisy, func(customer int) bool {
		quiet := now-s.sent[customer] >= noisyFor || s.whileBusy && !s.takesTooMuch(customer)
		if quiet {
			s.quiet.push(arrival(s.waiting.first[customer]))
		}
		return quiet
	})
	for len(s.quiet) > 0 {
		customer := s.customerOf(int(s.quiet.pop()))
		if s.takesTooMuch(customer) {
			s.noisy = append(s.noisy, customer)
			continue
		}
		document := s.serve(customer)
		if !s.waiting.empty(customer) {
			s.quiet.push(arrival(s.waiting.first[customer]))
		}
		return document, true
	}
	if len(s.noisy) == 0 {
		return 0, false
	}
	customer := slices.MinFunc(s.noisy, func(a, b int) int {
		if s.inFlight[a] != s.inFlight[b] {
			return s.inFlight[a] - s.inFlight[b]
		}
		return int(s.waiting.first[a] - s.waiting.first[b])
	})
	document := s.serve(customer)
	if s.waiting.empty(customer) {
		s.noisy = slices.DeleteFunc(s.noisy, func(other int) bool { return other == customer })
	}
	return document, true
}

func (s *sqsFair) Done(document int, now time.Duration) error {
	customer := s.documents[document].Customer
	s.inFlight[customer]--
	s.serving--
	added := math.Log2(s.documents[document].Service.Seconds()) + float64(now)/float64(recently)
	s.usage[customer] = addLogarithms(s.usage[customer], added)
	s.total = addLogarithms(s.total, added)
	return nil
}

// takesTooMuch says whether a customer is detected as noisy now.
func (s *sqsFair) takesTooMuch(customer int) bool {
	inFlight := s.inFlight[customer]
	return inFlight >= noisyInFlight && float64(inFlight) > noisyShare*float64(s.serving) ||
		s.usage[customer]-s.total > math.Log2(noisyShare)
}

// serve gives out a customer's first document.
func (s *sqsFair) serve(customer int) (document int) {
	s.inFlight[customer]++
	s.serving++
	return s.waiting.pop(customer)
}
