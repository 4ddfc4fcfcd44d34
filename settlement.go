package priority

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// mostFlights is how many settlements are under way at the same time.
	mostFlights = 32
	// betweenTries is the pause before what failed is tried again, where somebody
	// waits for it.
	betweenTries = 50 * time.Millisecond
)

// flight is a settlement, or a Reset, under way. There is one at a time for a
// customer.
type flight struct {
	landed chan struct{} // closed in the end

	// What is owed stays owed, or may have been counted, because of this.
	err error
	// refused reports that err is also the error of the calls that waited.
	refused bool
}

// settle writes what is owed for a customer, so that n documents can be answered
// from memory, or waits for those who do.
func (c *Coalescer) settle(ctx context.Context, operation, customer string, n int) error {
	s := c.shardOf(customer)
	s.mu.Lock()
	var f *flight
	if e, ok := s.customers.Peek(customer); ok {
		f = e.flight
		if f == nil && e.owed > 0 && !e.answers(n, time.Now()) && !c.closed.Load() {
			f = c.start(s, e, nil)
		}
	}
	s.mu.Unlock()
	if err := f.wait(ctx); err != nil {
		return notCounted(operation, customer, err)
	}
	if f != nil && f.refused {
		return f.err
	}
	return nil
}

// wait waits until a flight has landed.
func (f *flight) wait(ctx context.Context) error {
	if f == nil {
		return nil
	}
	select {
	case <-f.landed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flush settles a customer whose documents are due, and calls landed then.
func (c *Coalescer) flush(e *coalesced, landed func()) bool {
	s := c.shardOf(e.customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.owed == 0 || e.flight != nil || c.closed.Load() {
		return false
	}
	c.start(s, e, landed)
	return true
}

// start settles a customer in a goroutine of its own, which no caller's context
// ends: what that leaves unknown could not be written again. The caller holds mu.
func (c *Coalescer) start(s *shard, e *coalesced, landed func()) *flight {
	f := &flight{landed: make(chan struct{})}
	e.flight = f
	c.flusher.remove(e)
	go func() {
		f.err, f.refused = c.pay(s, e)
		if f.err != nil && c.onError != nil {
			c.onError(f.err)
		}
		s.mu.Lock()
		c.land(s, e)
		s.mu.Unlock()
		if landed != nil {
			landed()
		}
	}()
	return f
}

// land ends a customer's flight. The caller holds mu.
func (c *Coalescer) land(s *shard, e *coalesced) {
	switch trusted := !e.trustedUntil.IsZero(); {
	case e.owed == 0 && !trusted:
		c.drop(s, e)
	case e.owed > 0 && trusted: // what came while the rest was written
		c.flusher.add(e, e.trustedUntil)
	case e.owed > 0:
		c.flusher.add(e, time.Now().Add(c.interval))
	}
	close(e.flight.landed)
	e.flight = nil
}

// errAnotherStore is why nothing is settled with a Fallback that cannot reach
// its primary.
var errAnotherStore = fmt.Errorf("%w: the fleet's count could not be reached", ErrNotCounted)

// pay writes what is owed for a customer with one NextN. It returns why it could
// not, and whether the calls that wait are refused for that.
func (c *Coalescer) pay(s *shard, e *coalesced) (err error, refused bool) {
	ctx := context.Background()
	lowest := c.store.PolicyOf(e.customer).Lowest()
	// isReset reports that a count has been reset since it was known to be lower.
	isReset := func(d Decision, known int64) bool { return d.Count > known && d.Level != lowest }

	s.mu.Lock()
	known := e.count
	s.mu.Unlock()
	before, err := c.store.Peek(ctx, e.customer)
	if err != nil {
		c.unpaid(s, e, 0)
		return refusal(err), true
	}
	if before.Degraded {
		c.unpaid(s, e, 0)
		return errAnotherStore, false
	}
	if isReset(before, known) {
		c.forget(s, e)
		return nil, false
	}

	s.mu.Lock()
	n, sent := e.owed, time.Now()
	s.mu.Unlock()
	decisions, err := c.store.NextN(ctx, e.customer, n)
	switch {
	case err == nil && decisions[0].Degraded: // owed by a Fallback from now on
		c.unpaid(s, e, n)
		return nil, false
	case err == nil && isReset(decisions[0], before.Count):
		// The reset came between the two calls. It is done again, as if it had
		// come a moment later.
		err := c.undo(ctx, e.customer, sent.Add(c.interval))
		c.forget(s, e)
		if err != nil {
			err = fmt.Errorf("%w (%d documents of %s were counted after somebody's Reset)", err, n, quote(e.customer))
		}
		return err, false
	case err == nil:
		s.mu.Lock()
		defer s.mu.Unlock()
		e.owed -= n
		e.answer = c.answerOf(decisions[n-1], c.store.PolicyOf(e.customer), sent)
		return nil, false
	case surelyNotCounted(err):
		c.unpaid(s, e, 0)
		return err, true
	default:
		c.unpaid(s, e, n)
		return fmt.Errorf("%w (%d documents of %s)", err, n, quote(e.customer)), false
	}
}

// unpaid notes that the customer's count is not known, and that n documents are
// not owed any more.
func (c *Coalescer) unpaid(s *shard, e *coalesced, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.owed -= n
	e.distrust()
}

// forget drops what is owed to a count that is no more.
func (c *Coalescer) forget(s *shard, e *coalesced) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c.drop(s, e)
}

// undo resets a count, and tries to until the deadline.
func (c *Coalescer) undo(ctx context.Context, customer string, deadline time.Time) error {
	for {
		err := c.store.Reset(ctx, customer)
		if err == nil || !time.Now().Before(deadline) {
			return err
		}
		time.Sleep(betweenTries)
	}
}

// surelyNotCounted reports that an error leaves no doubt.
func surelyNotCounted(err error) bool {
	return !errors.Is(err, ErrOutcomeUnknown) &&
		(errors.Is(err, ErrNotCounted) || errors.Is(err, ErrCorruptCount) || errors.Is(err, ErrInvalid))
}

// refusal is the error of a document that was not counted because a Peek failed.
func refusal(err error) error {
	if surelyNotCounted(err) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrNotCounted, err)
}

// owed returns how many documents are owed for a customer, once no flight
// changes that.
func (c *Coalescer) owed(ctx context.Context, customer string) (int, error) {
	s := c.shardOf(customer)
	for {
		s.mu.Lock()
		e, ok := s.customers.Peek(customer)
		if !ok {
			e = &coalesced{}
		}
		owed, flight := e.owed, e.flight
		s.mu.Unlock()
		if flight == nil {
			return owed, nil
		}
		if err := flight.wait(ctx); err != nil {
			return 0, notCounted("Peek", customer, err)
		}
	}
}

// beginReset keeps a customer from being settled, and the shard from learning,
// until end is called with the outcome of a Reset.
func (c *Coalescer) beginReset(ctx context.Context, customer string) (end func(error), err error) {
	s := c.shardOf(customer)
	s.mu.Lock()
	s.resetting++
	e, ok := s.customers.Peek(customer)
	for ok && e.flight != nil && err == nil {
		flight := e.flight
		s.mu.Unlock()
		err = flight.wait(ctx)
		s.mu.Lock()
		e, ok = s.customers.Peek(customer)
	}
	defer s.mu.Unlock()
	if err != nil {
		s.resetting--
		return nil, notCounted("Reset", customer, err)
	}
	if ok {
		e.flight = &flight{landed: make(chan struct{})}
	}
	return func(err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.resetting--
		s.resets++
		if !ok {
			return
		}
		if err == nil {
			c.drop(s, e)
		}
		e.distrust()
		c.land(s, e)
	}, nil
}

// settleAll settles all customers, again and again until ctx ends.
func (c *Coalescer) settleAll(ctx context.Context) error {
	var mu sync.Mutex
	var unknown, failed error // the last ones
	for {
		debtors, documents := c.debtors()
		if len(debtors) == 0 {
			return unknown
		}
		if err := ctx.Err(); err != nil {
			err = fmt.Errorf("%w: %d documents of %d customers are still owed: %w", ErrNotCounted, documents, len(debtors), err)
			return errors.Join(err, failed, unknown)
		}
		again := false
		sideBySide(debtors, func(e *coalesced) {
			err := c.settleLast(ctx, e)
			mu.Lock()
			defer mu.Unlock()
			if errors.Is(err, ErrOutcomeUnknown) {
				unknown = err
			} else if err != nil {
				failed, again = err, true
			}
		})
		if again {
			select {
			case <-ctx.Done():
			case <-time.After(betweenTries):
			}
		}
	}
}

// settleLast settles a customer of a Coalescer that is closed, unless ctx ends.
func (c *Coalescer) settleLast(ctx context.Context, e *coalesced) error {
	s := c.shardOf(e.customer)
	s.mu.Lock()
	f := e.flight
	if f == nil && e.owed > 0 {
		f = c.start(s, e, nil)
	}
	s.mu.Unlock()
	if f.wait(ctx) != nil || f == nil {
		return nil
	}
	return f.err
}

// debtors returns the customers for whom something is owed or under way, and how
// many documents are owed.
func (c *Coalescer) debtors() (debtors []*coalesced, documents int) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for _, e := range s.customers.Values() {
			if e.owed > 0 || e.flight != nil {
				debtors = append(debtors, e)
				documents += e.owed
			}
		}
		s.mu.Unlock()
	}
	return debtors, documents
}

// sideBySide does something with each of many, some at the same time.
func sideBySide[T any](all []T, do func(T)) {
	var taken atomic.Int64
	var working sync.WaitGroup
	for range min(len(all), mostFlights) {
		working.Go(func() {
			for i := taken.Add(1); i <= int64(len(all)); i = taken.Add(1) {
				do(all[i-1])
			}
		})
	}
	working.Wait()
}
