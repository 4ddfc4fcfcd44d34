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
)

// late is a primary that leaves alone what was submitted again since a Done.
type late interface {
	DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error)
}

// dones are the Dones that the primary has not accepted. They stay for the longest lease: by
// then the primary has forgotten the documents anyway.
type dones struct {
	most int

	n         atomic.Int64 // how many are owed
	mu        sync.Mutex
	customers map[string]map[string]owed // by customer and document
}

// owed is a Done that the primary has not accepted.
type owed struct {
	took     time.Duration
	since    time.Time // when the document was done
	reported bool      // memory had the document too, and its end was reported
}

// settle remembers a Done that the primary did not accept, or forgets it. It clears the end of
// a document that an earlier call has reported.
func (s *Store) settle(customer, document string, done owed, err error, ended *priority.Ended) {
	if err == nil || errors.Is(err, priority.ErrCorrupt) || errors.Is(err, priority.ErrInvalid) {
		if s.dones.remove(customer, document).reported {
			*ended = priority.Ended{}
		}
		return
	}
	done.reported = ended.Level > 0
	s.dones.add(customer, document, done)
	s.retryLater()
}

func (d *dones) add(customer, document string, done owed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, again := d.customers[customer][document]
	if !again && int(d.n.Load()) >= d.most {
		d.dropOne()
	}
	if d.customers == nil {
		d.customers = make(map[string]map[string]owed)
	}
	if d.customers[customer] == nil {
		d.customers[customer] = make(map[string]owed)
	}
	done.reported = done.reported || before.reported
	if d.customers[customer][document] = done; !again {
		d.n.Add(1)
	}
}

// dropOne makes room at the cost of the one with the most of a few customers. The caller
// holds mu.
func (d *dones) dropOne() {
	most, looked := "", 0
	for customer, documents := range d.customers { // from a random one on
		if len(documents) > len(d.customers[most]) {
			most = customer
		}
		if looked++; looked == 16 {
			break
		}
	}
	for document := range d.customers[most] {
		d.delete(most, document)
		return
	}
}

// submitted forgets the Done of a document that the primary has counted again, or may have, in a
// call that began after that Done. The primary would leave the document alone, but for a Done
// that is under way for longer than it was owed.
func (d *dones) submitted(customer, document string, began time.Time, err error) {
	if d.n.Load() == 0 || err != nil && !errors.Is(err, priority.ErrOutcomeUnknown) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if done, ok := d.customers[customer][document]; ok && !done.since.After(began) {
		d.delete(customer, document)
	}
}

// remove forgets a Done and returns it.
func (d *dones) remove(customer, document string) owed {
	if d.n.Load() == 0 {
		return owed{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.delete(customer, document)
}

// delete is remove. The caller holds mu.
func (d *dones) delete(customer, document string) owed {
	documents := d.customers[customer]
	done, ok := documents[document]
	if !ok {
		return owed{}
	}
	d.n.Add(-1)
	if delete(documents, document); len(documents) == 0 {
		delete(d.customers, customer)
	}
	return done
}

// len returns how many are owed.
func (d *dones) len() int { return int(d.n.Load()) }

// batch is Dones of one customer that go to the primary in one call.
type batch struct {
	customer  string
	documents []priority.Late
	took      time.Duration
}

// batches returns what is owed. Documents whose time is unknown go separately.
func (d *dones) batches() (all []*batch) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for customer, documents := range d.customers {
		var timed, untimed *batch
		for document, done := range documents {
			if time.Since(done.since) > priority.DefaultLease {
				d.delete(customer, document)
				continue
			}
			open := &untimed
			if done.took > 0 {
				open = &timed
			}
			if *open == nil || len((*open).documents) == mostSent {
				*open = &batch{customer: customer}
				all = append(all, *open)
			}
			b := *open
			b.documents = append(b.documents, priority.Late{ID: document, Since: done.since})
			if b.took += done.took; b.took < 0 { // overflow
				b.took = math.MaxInt64
			}
		}
	}
	return all
}

// left returns what of a batch is still owed.
func (d *dones) left(b *batch) []priority.Late {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(b.documents, func(document priority.Late) bool {
		done, ok := d.customers[b.customer][document.ID]
		return !ok || !done.since.Equal(document.Since)
	})
}

// accepted forgets the Dones of a batch that the primary accepted, or can never accept.
func (d *dones) accepted(b *batch, errs []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, document := range b.documents {
		err := errs[i]
		if err != nil && !errors.Is(err, priority.ErrCorrupt) && !errors.Is(err, priority.ErrInvalid) {
			continue
		}
		if d.customers[b.customer][document.ID].since.Equal(document.Since) { // else there was another Done
			d.delete(b.customer, document.ID)
		}
	}
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
				if b.documents = s.dones.left(b); len(b.documents) == 0 {
					continue
				}
				err := s.send(ctx, b)
				s.dones.accepted(b, itemerrors.Of(err, len(b.documents)))
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

func (s *Store) send(ctx context.Context, b *batch) (err error) {
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	if s.late != nil {
		_, err = s.late.DoneLate(ctx, b.customer, b.documents, b.took)
		return err
	}
	ids := make([]string, len(b.documents))
	for i, document := range b.documents {
		ids[i] = document.ID
	}
	_, err = s.primary.DoneN(ctx, b.customer, ids, b.took)
	return err
}
