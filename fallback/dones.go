package fallback

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/expiring"
)

// mostPaid is how many Dones go to the primary in one call.
const mostPaid = 10_000

// dones are the Dones that the primary has not taken. After the longest lease that
// any process can have it has forgotten the documents by itself. The values are how
// long the documents took.
type dones struct {
	most int

	mu     sync.Mutex
	owed   expiring.Set[time.Duration]
	paying payment
}

// payment is Dones of one customer that are on their way to the primary.
type payment struct {
	customer  string
	documents []string
	took      time.Duration
	set       map[string]bool // of the documents
}

// hold notes Dones that are not taken yet.
func (d *dones) hold(customer string, documents []string, took time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.owed.Expire(now)
	for _, document := range documents {
		if d.owed.Len() < d.most || d.owed.Holds(customer, document) {
			d.owed.Hold(customer, document, took, now.Add(priority.DefaultLease))
		}
	}
}

// settle forgets the Dones that the primary took or can never take, and reports
// whether any are left of these.
func (d *dones) settle(customer string, documents []string, errs []error) (left bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, document := range documents {
		if err := errs[i]; err == nil || errors.Is(err, priority.ErrCorruptCount) || errors.Is(err, priority.ErrInvalid) {
			d.owed.Release(customer, document)
		} else {
			left = left || d.owed.Holds(customer, document)
		}
	}
	return left
}

// cancel forgets Dones of documents that are submitted again. It returns false if
// one of them is on its way.
func (d *dones) cancel(customer string, documents []string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok := true
	for _, document := range documents {
		d.owed.Release(customer, document)
		ok = ok && !(d.paying.customer == customer && d.paying.set[document])
	}
	return ok
}

func (d *dones) forget(customer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Forget(customer)
}

// customers returns those for whom Dones are owed.
func (d *dones) customers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Expire(time.Now())
	return d.owed.Customers()
}

func (d *dones) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Expire(time.Now())
	return d.owed.Len()
}

// pay begins to pay a customer's Dones. One payment is under way at a time.
func (d *dones) pay(customer string) payment {
	d.mu.Lock()
	defer d.mu.Unlock()
	documents, tooks := d.owed.Documents(customer)
	d.paying = payment{customer: customer, set: make(map[string]bool)}
	for i, document := range documents {
		if len(d.paying.documents) == mostPaid {
			break
		}
		if (tooks[i] == 0) != (tooks[0] == 0) {
			continue // of which it is not known how long they took, go by themselves
		}
		d.paying.documents = append(d.paying.documents, document)
		d.paying.set[document] = true
		if d.paying.took += tooks[i]; d.paying.took < 0 { // too long to be true
			d.paying.took = math.MaxInt64
		}
	}
	return d.paying
}

// paid ends a payment.
func (d *dones) paid(p payment, errs []error) {
	d.settle(p.customer, p.documents, errs)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paying = payment{}
}
