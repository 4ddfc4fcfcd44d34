package fallback

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
)

const (
	mostSent = 10_000 // Dones in one call

	// senders is how many calls are in flight at a time. There may be thousands of customers on a
	// part of the primary that hangs, and the others must not wait for long.
	senders = 64
)

// late is a primary that can be told of a Done late: it leaves alone what was submitted since then.
type late interface {
	DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error)
}

// dones are the Dones that the primary missed.
type dones struct {
	most int

	mu     sync.Mutex
	missed map[document]missed
	counts map[string]int // of each customer
}

type document struct{ customer, id string }

type missed struct {
	took  time.Duration
	since time.Time // when the document was done
}

func (d *dones) len() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.missed)
}

// add remembers a Done. If there are too many, then of some random ones that of the customer
// with the most is forgotten.
func (d *dones) add(added document, done missed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, again := d.missed[added]; !again {
		d.counts[added.customer]++
	}
	d.missed[added] = done
	if len(d.missed) <= d.most {
		return
	}
	found, looked := added, 0
	for other := range d.missed {
		if d.counts[other.customer] > d.counts[found.customer] {
			found = other
		}
		if looked++; looked == 16 {
			break
		}
	}
	d.remove(found)
}

// remove forgets a Done. The caller holds mu.
func (d *dones) remove(document document) {
	delete(d.missed, document)
	d.counts[document.customer]--
	if d.counts[document.customer] == 0 {
		delete(d.counts, document.customer)
	}
}

// batch is Dones of one customer for one call. The call says how long all of its documents took,
// so those of unknown time are not among others.
type batch struct {
	customer  string
	documents []priority.Late
	took      time.Duration
}

// batches returns all Dones, in random order.
func (d *dones) batches() (all []*batch) {
	type kind struct {
		customer string
		timed    bool
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	open := make(map[kind]*batch)
	for document, done := range d.missed {
		kind := kind{document.customer, done.took > 0}
		b := open[kind]
		if b == nil || len(b.documents) == mostSent {
			b = &batch{customer: document.customer}
			open[kind], all = b, append(all, b)
		}
		b.documents = append(b.documents, priority.Late{ID: document.id, Since: done.since})
		b.took += min(done.took, priority.DefaultLease) // the sum of many must not overflow
	}
	return all
}

// sent forgets the Dones that the primary has accepted, or never will.
func (d *dones) sent(b *batch, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, err := range itemerrors.Of(err, len(b.documents)) {
		document, settled := document{b.customer, b.documents[i].ID}, err == nil || errors.Is(err, priority.ErrCorrupt)
		// It may have been submitted and done again meanwhile.
		if settled && d.missed[document].since.Equal(b.documents[i].Since) {
			d.remove(document)
		}
	}
}

// sendDones sends each Done that the primary missed once, unless the primary works for nobody.
func (s *Store) sendDones(ctx context.Context) {
	slots := make(chan struct{}, senders)
	var failures atomic.Int64 // in a row
	var away atomic.Bool
	var wait sync.WaitGroup
	for _, b := range s.dones.batches() {
		slots <- struct{}{}
		if away.Load() || ctx.Err() != nil {
			break
		}
		wait.Go(func() {
			defer func() { <-slots }()
			limited, cancel := context.WithTimeout(ctx, backgroundTimeout)
			defer cancel()
			_, err := s.late.DoneLate(limited, b.customer, b.documents, b.took)
			s.dones.sent(b, err)
			if err != nil && ctx.Err() == nil && s.opts.OnError != nil {
				s.opts.OnError(err)
			}
			if reached(err) {
				failures.Store(0)
			} else if failures.Add(1)%senders == 0 && !s.probe(ctx) {
				away.Store(true)
			}
		})
	}
	wait.Wait()
}
