package fallback

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/expiring"
)

const (
	// mostPaid is how many Dones go to the store in one call.
	mostPaid = 10_000
	// payers is how many calls are under way at a time: for thousands of customers, one
	// call after the other would take too long for a process that is about to end.
	payers = 16
	// mostFailedPayments in a row end a round of payments: the store is away again.
	mostFailedPayments = 3
	// perLock is how many documents a call handles before it lets others take the
	// lock.
	perLock = 1000
)

// dones are the Dones that a store has not accepted yet. They are kept for the
// longest lease that any process can have: then the store has forgotten the
// documents anyway.
type dones struct {
	to   priority.Store
	most int

	mu     sync.Mutex
	owed   expiring.Set[done]
	calls  uint64                     // of hold
	paying map[string]map[string]bool // documents on their way, by their customer
	late   map[string]bool            // customers whose last payment failed
}

// done is a Done that is owed.
type done struct {
	took    time.Duration
	call    uint64 // of hold, by which it came
	submits int    // of the document that are under way: the Done waits for them
	counted bool   // a Submit was or may have been counted: the Done is not paid any more
}

// hold records Dones that the store has not accepted yet, and returns the call's
// number. If there are too many, the customer with the most loses one.
func (d *dones) hold(customer string, documents []string, took time.Duration) (call uint64) {
	for chunk := range slices.Chunk(documents, perLock) {
		d.mu.Lock()
		now := time.Now()
		d.owed.Expire(now)
		if call == 0 {
			d.calls++
			call = d.calls
		}
		for _, document := range chunk {
			if d.owed.Len() < d.most || d.owed.Get(customer, document) != nil || d.owed.Thin(customer) {
				d.owed.Hold(customer, document, done{took: took, call: call}, now.Add(priority.DefaultLease))
			}
		}
		d.mu.Unlock()
	}
	return call
}

// settle forgets the Dones that the store accepted or can never accept, and reports
// whether any of the documents' Dones are left. Dones from later calls stay.
func (d *dones) settle(customer string, documents []string, call uint64, errs []error) (left bool) {
	for from := 0; from < len(documents); from += perLock {
		d.mu.Lock()
		for i := from; i < min(from+perLock, len(documents)); i++ {
			err, held := errs[i], d.owed.Get(customer, documents[i])
			if held == nil || held.call > call {
				continue
			}
			if err == nil || errors.Is(err, priority.ErrCorruptCount) || errors.Is(err, priority.ErrInvalid) {
				d.owed.Release(customer, documents[i])
			} else {
				left = true
			}
		}
		d.mu.Unlock()
	}
	return left
}

// canceled is a Done whose document is being submitted again.
type canceled struct {
	at   int // among the call's documents
	call uint64
}

// submitting holds back the Dones of documents that are being submitted again, until
// submitted is called. It reports whether one of them is on its way.
func (d *dones) submitting(customer string, documents []string) (back []canceled, onItsWay bool) {
	for from := 0; from < len(documents); from += perLock {
		d.mu.Lock()
		paying := d.paying[customer]
		for i := from; i < min(from+perLock, len(documents)) && d.owed.Len()+len(paying) > 0; i++ {
			if held := d.owed.Get(customer, documents[i]); held != nil {
				held.submits++
				back = append(back, canceled{i, held.call})
			}
			onItsWay = onItsWay || paying[documents[i]]
		}
		d.mu.Unlock()
	}
	return back, onItsWay
}

// submitted forgets the Dones of documents that were or may have been counted.
func (d *dones) submitted(customer string, documents []string, back []canceled, err error) {
	if len(back) == 0 {
		return
	}
	errs := priority.ItemErrors(err, len(documents))
	for chunk := range slices.Chunk(back, perLock) {
		d.mu.Lock()
		for _, c := range chunk {
			held := d.owed.Get(customer, documents[c.at])
			if held == nil || held.call != c.call {
				continue
			}
			held.submits--
			held.counted = held.counted || errs[c.at] == nil || errors.Is(errs[c.at], priority.ErrOutcomeUnknown)
			if held.counted && held.submits == 0 {
				d.owed.Release(customer, documents[c.at])
			}
		}
		d.mu.Unlock()
	}
}

func (d *dones) forget(customer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Forget(customer)
}

func (d *dones) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Expire(time.Now())
	return d.owed.Len()
}

// round is one round of payments.
type round struct {
	stopped  func() bool
	skip     func(customer string) bool // or nil
	onError  func(error)                // or nil
	failures atomic.Int64
}

func (r *round) over(ctx context.Context) bool {
	return r.failures.Load() >= mostFailedPayments || ctx.Err() != nil || r.stopped()
}

// pay sends the Dones that are owed, each once, until the store fails too often or the
// round is stopped. One round is under way at a time.
func (d *dones) pay(ctx context.Context, r *round) {
	customers := d.customers()
	if r.skip != nil {
		customers = slices.DeleteFunc(customers, r.skip)
	}
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(payers, len(customers)) {
		wait.Go(func() {
			for at := next.Add(1); at <= int64(len(customers)) && !r.over(ctx); at = next.Add(1) {
				d.payFor(ctx, r, customers[at-1])
			}
		})
	}
	wait.Wait()
}

// customers returns the customers for whom Dones are owed, the late ones last.
func (d *dones) customers() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owed.Expire(time.Now())
	maps.DeleteFunc(d.late, func(customer string, _ bool) bool { return d.owed.LenOf(customer) == 0 })
	var customers, late []string
	for _, customer := range d.owed.Customers() {
		if d.late[customer] {
			late = append(late, customer)
		} else {
			customers = append(customers, customer)
		}
	}
	return append(customers, late...)
}

// payFor sends the Dones of one customer, until the store fails.
func (d *dones) payFor(ctx context.Context, r *round, customer string) {
	d.mu.Lock()
	documents := d.owed.Documents(customer)
	d.mu.Unlock()
	// Documents whose time is unknown are paid separately.
	for _, known := range []bool{false, true} {
		for chunk := range slices.Chunk(documents, mostPaid) {
			if r.over(ctx) {
				return
			}
			p := d.take(customer, chunk, known)
			if len(p.documents) == 0 { // a Submit or a Reset removed them
				continue
			}
			err := d.send(ctx, p)
			d.paid(p, err)
			if err != nil && r.onError != nil {
				r.onError(err)
			}
			if !reached(err) {
				r.failures.Add(1)
				return
			}
			r.failures.Store(0)
		}
	}
}

// payment stands for Dones of one customer that are on their way.
type payment struct {
	customer  string
	documents []string
	took      time.Duration
	call      uint64 // the last call of hold before it
}

// take begins a payment of the documents whose time is known, or of the other
// documents.
func (d *dones) take(customer string, documents []string, known bool) payment {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, onTheirWay := payment{customer: customer, call: d.calls}, make(map[string]bool)
	for _, document := range documents {
		held := d.owed.Get(customer, document)
		if held == nil || held.submits > 0 || (held.took > 0) != known {
			continue
		}
		p.documents = append(p.documents, document)
		onTheirWay[document] = true
		if p.took += held.took; p.took < 0 { // too long to be true
			p.took = math.MaxInt64
		}
	}
	if len(p.documents) > 0 {
		if d.paying == nil {
			d.paying = make(map[string]map[string]bool)
		}
		d.paying[customer] = onTheirWay
	}
	return p
}

func (d *dones) send(ctx context.Context, p payment) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	return d.to.DoneN(ctx, p.customer, p.documents, p.took)
}

func (d *dones) paid(p payment, err error) {
	d.settle(p.customer, p.documents, p.call, priority.ItemErrors(err, len(p.documents)))
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.paying, p.customer)
	if reached(err) {
		delete(d.late, p.customer)
		return
	}
	if d.late == nil {
		d.late = make(map[string]bool)
	}
	d.late[p.customer] = true
}
