package fallback

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
)

const (
	// mostSent is how many Dones go to the primary in one call.
	mostSent = 10_000
	// senders is how many calls are in flight at a time: one after the other, thousands of
	// customers would take too long for a process that is about to end.
	senders = 16
	// mostSendFailures in a row end a round: the primary is away again.
	mostSendFailures = 3
	// perLock is how many documents a call handles before it lets others take the lock.
	perLock = 1000
)

// dones are the Dones that the primary has not accepted yet. They stay for the longest
// lease: by then the primary has forgotten the documents anyway.
type dones struct {
	most int

	mu    sync.Mutex
	owed  map[document]done
	calls uint64 // of hold
}

type document struct{ customer, id string }

// done is a Done that is owed.
type done struct {
	took     time.Duration
	until    time.Time
	call     uint64 // of hold that recorded it
	submits  int    // of the document that are in flight: the Done waits for them
	sending  bool   // to the primary
	void     bool   // not to be sent; kept for a send or a Submit in flight
	reported bool   // memory had the document too, and its end was reported
}

// chunks calls a function with up to perLock documents at a time, under the lock.
func (d *dones) chunks(documents []string, handle func(from int, chunk []string)) {
	for from := 0; from < len(documents); from += perLock {
		d.mu.Lock()
		handle(from, documents[from:min(from+perLock, len(documents))])
		d.mu.Unlock()
	}
}

// hold records Dones that the primary has not accepted yet, and returns the call's
// number. If there are too many, each replaces an arbitrary other one.
func (d *dones) hold(customer string, documents []string, took time.Duration) (call uint64) {
	until := time.Now().Add(priority.DefaultLease)
	d.chunks(documents, func(_ int, chunk []string) {
		if call == 0 {
			d.calls++
			call = d.calls
		}
		if d.owed == nil {
			d.owed = make(map[document]done)
		}
		for _, id := range chunk {
			key := document{customer, id}
			held, known := d.owed[key]
			if !known && len(d.owed) >= d.most {
				d.dropAny()
			}
			held.took, held.until, held.call, held.void = took, until, call, false
			d.owed[key] = held
		}
	})
	return call
}

func (d *dones) dropAny() {
	for key, held := range d.owed {
		if !held.sending {
			delete(d.owed, key)
			return
		}
	}
}

// remove removes a Done, as soon as nothing is in flight. The caller holds mu.
func (d *dones) remove(key document, held done) {
	if held.sending || held.submits > 0 {
		held.void = true
		d.owed[key] = held
	} else {
		delete(d.owed, key)
	}
}

// settle forgets the Dones that the primary accepted or can never accept, and reports
// whether any of the documents' Dones are left. Dones from later calls stay. It clears the
// entries of ended that an earlier call has reported; nil: nothing is reported.
func (d *dones) settle(customer string, documents []string, call uint64, errs []error, ended []priority.Ended) (left bool) {
	d.chunks(documents, func(from int, chunk []string) {
		for i, id := range chunk {
			key, err := document{customer, id}, errs[from+i]
			held, known := d.owed[key]
			switch {
			case !known || held.call > call:
			case err == nil || errors.Is(err, priority.ErrCorrupt) || errors.Is(err, priority.ErrInvalid):
				if held.reported && ended != nil {
					ended[from+i] = priority.Ended{}
				}
				d.remove(key, held)
			default:
				left = true
				if ended != nil && ended[from+i].Level > 0 {
					held.reported = true
					d.owed[key] = held
				}
			}
		}
	})
	return left
}

// heldBack is a Done whose document is being submitted again.
type heldBack struct {
	at   int // among the call's documents
	call uint64
}

// submitting holds back the Dones of documents that are being submitted again, until
// submitted is called. It reports whether one of them is on its way.
func (d *dones) submitting(customer string, documents []string) (back []heldBack, onTheirWay bool) {
	d.chunks(documents, func(from int, chunk []string) {
		if len(d.owed) == 0 {
			return
		}
		for i, id := range chunk {
			if held, known := d.owed[document{customer, id}]; known {
				held.submits++
				d.owed[document{customer, id}] = held
				back = append(back, heldBack{from + i, held.call})
				onTheirWay = onTheirWay || held.sending
			}
		}
	})
	return back, onTheirWay
}

// submitted forgets the Dones of documents that the primary has or may have counted. Nil
// errs mean that it was not asked.
func (d *dones) submitted(customer string, documents []string, back []heldBack, errs []error) {
	for chunk := range slices.Chunk(back, perLock) {
		d.mu.Lock()
		for _, b := range chunk {
			key := document{customer, documents[b.at]}
			held, known := d.owed[key]
			if !known {
				continue
			}
			held.submits--
			d.owed[key] = held
			counted := errs != nil && (errs[b.at] == nil || errors.Is(errs[b.at], priority.ErrOutcomeUnknown))
			if held.void || counted && held.call == b.call {
				d.remove(key, held)
			}
		}
		d.mu.Unlock()
	}
}

func (d *dones) forget(customer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, held := range d.owed {
		if key.customer == customer {
			d.remove(key, held)
		}
	}
}

// len returns how many are to be sent.
func (d *dones) len() (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for _, held := range d.owed {
		if !held.void && !now.After(held.until) {
			n++
		}
	}
	return n
}

// batch is Dones of one customer that go to the primary in one call.
type batch struct {
	customer  string
	documents []string
	took      time.Duration
	call      uint64 // the last call of hold before it
}

// batches returns the Dones to send. Documents whose time is unknown go separately.
func (d *dones) batches() (all []*batch) {
	type group struct {
		customer string
		known    bool
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now, open := time.Now(), make(map[group]*batch)
	for key, held := range d.owed {
		if now.After(held.until) {
			d.remove(key, held)
			continue
		}
		of := group{key.customer, held.took > 0}
		b := open[of]
		if b == nil || len(b.documents) == mostSent {
			b = &batch{customer: key.customer}
			open[of], all = b, append(all, b)
		}
		b.documents = append(b.documents, key.id)
	}
	return all
}

// take marks what is left of a batch as on its way.
func (d *dones) take(b *batch) {
	var left []string
	d.chunks(b.documents, func(_ int, chunk []string) {
		b.call = d.calls
		for _, id := range chunk {
			key := document{b.customer, id}
			held, known := d.owed[key]
			if !known || held.void || held.submits > 0 {
				continue
			}
			held.sending = true
			d.owed[key] = held
			left = append(left, id)
			if b.took += held.took; b.took < 0 { // overflow
				b.took = math.MaxInt64
			}
		}
	})
	b.documents = left
}

// sent ends what take has begun.
func (d *dones) sent(b *batch, err error) {
	d.chunks(b.documents, func(_ int, chunk []string) {
		for _, id := range chunk {
			key := document{b.customer, id}
			if held, known := d.owed[key]; known {
				held.sending = false
				if d.owed[key] = held; held.void {
					d.remove(key, held)
				}
			}
		}
	})
	d.settle(b.customer, b.documents, b.call, itemerrors.Of(err, len(b.documents)), nil)
}

// sendDones sends the Dones that are owed, each once, until the primary fails too often or
// the round is stopped. One round is in flight at a time.
func (s *Store) sendDones(ctx context.Context, stopped func() bool) {
	batches := s.dones.batches()
	var next, failures atomic.Int64
	var wait sync.WaitGroup
	for range min(senders, len(batches)) {
		wait.Go(func() {
			for at := next.Add(1); at <= int64(len(batches)); at = next.Add(1) {
				if failures.Load() >= mostSendFailures || ctx.Err() != nil || stopped() {
					return
				}
				b := batches[at-1]
				if s.dones.take(b); len(b.documents) == 0 {
					continue
				}
				err := s.send(ctx, b)
				s.dones.sent(b, err)
				if err != nil && s.opts.OnError != nil {
					s.opts.OnError(err)
				}
				if reached(err) {
					failures.Store(0)
				} else {
					failures.Add(1)
				}
			}
		})
	}
	wait.Wait()
}

func (s *Store) send(ctx context.Context, b *batch) error {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	_, err := s.primary.DoneN(ctx, b.customer, b.documents, b.took)
	return err
}
