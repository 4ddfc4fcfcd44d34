package fallback

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
)

// backgroundTimeout bounds the calls of a primary without its own timeout.
const backgroundTimeout = time.Second

// retry is what happens in the background after a failure: probes, and the Dones that the
// primary missed.
type retry struct {
	turn   chan struct{} // has room for one: whoever retries holds it
	closed atomic.Bool

	// The customers whom a probe covers. There are several, so that a customer whose node
	// hangs does not open the circuit or keep it open.
	worked, failed customers

	mu    sync.Mutex
	timer *time.Timer // nil: no retry is scheduled
}

// customers are a few distinct ones, the newest last.
type customers struct {
	mu   sync.Mutex
	some []string
}

const mostCustomers = 4

func (c *customers) add(customer string) {
	if check.Customer(customer) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.Contains(c.some, customer) {
		return
	}
	if len(c.some) == mostCustomers {
		c.some = slices.Delete(c.some, 0, 1)
	}
	c.some = append(c.some, customer)
}

func (c *customers) all() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.some)
}

// retryLater schedules a retry, unless one is scheduled.
func (s *Store) retryLater() { s.retryIn(s.opts.RetryAfter) }

// retryIn schedules a retry; with d = 0, it brings forward a scheduled one.
func (s *Store) retryIn(d time.Duration) {
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	switch {
	case s.retry.closed.Load():
	case s.retry.timer == nil:
		s.retry.timer = time.AfterFunc(d, s.retryNow)
	case d == 0 && s.retry.timer.Stop():
		s.retry.timer.Reset(0)
	}
}

func (s *Store) retryNow() {
	s.retry.turn <- struct{}{}
	s.retry.mu.Lock()
	s.retry.timer = nil // what fails from now on needs another one
	s.retry.mu.Unlock()
	if !s.retry.closed.Load() && (!s.breaker.needsProbe() || s.probe()) {
		s.sendDones(context.Background(), s.retry.closed.Load)
	}
	<-s.retry.turn

	if s.Degraded() || s.dones.len() > 0 {
		s.retryLater()
	}
}

// probe asks the primary for some customers, all at the same time, and reports whether it
// works for any.
func (s *Store) probe() bool {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	var works atomic.Bool
	var wait sync.WaitGroup
	for _, customer := range append(s.retry.worked.all(), s.retry.failed.all()...) {
		wait.Go(func() {
			// It has to be a write: a replica would answer a Peek.
			if _, err := s.primary.Done(ctx, customer, rand.Text(), 0); reached(err) {
				works.Store(true)
			}
		})
	}
	wait.Wait()
	if s.breaker.probed(works.Load()) {
		if s.breaker.open() {
			s.tell()
		} else {
			s.recovered()
		}
	}
	return works.Load()
}

// news is what OnChange was last called with.
type news struct {
	mu       sync.Mutex
	reported bool // its last argument
	busy     bool // a goroutine calls it
}

// tell calls OnChange in the background if the circuit has opened or closed since its last
// call. A half-open circuit counts as open.
func (s *Store) tell() {
	s.news.mu.Lock()
	defer s.news.mu.Unlock()
	if s.opts.OnChange != nil && !s.news.busy {
		s.news.busy = true
		go s.tellAll()
	}
}

// tellAll calls OnChange until it has the current state. Its calls never overlap.
func (s *Store) tellAll() {
	for {
		s.news.mu.Lock()
		open, cause := s.breaker.away()
		if open == s.news.reported {
			s.news.busy = false
			s.news.mu.Unlock()
			return
		}
		s.news.reported = open
		s.news.mu.Unlock()
		s.opts.OnChange(open, cause)
	}
}

// Close ends what runs in the background, and sends each Done that the primary missed
// once, until ctx ends or the primary fails too often. Calls still work afterwards. An
// error wraps [priority.ErrNotCounted] and says how many Dones the primary still misses;
// Close may then be called again.
func (s *Store) Close(ctx context.Context) error {
	s.retry.closed.Store(true)
	select {
	case s.retry.turn <- struct{}{}:
		s.sendDones(ctx, func() bool { return false })
		<-s.retry.turn
	case <-ctx.Done():
	}
	if left := s.dones.len(); left > 0 {
		return fmt.Errorf("%w: Dones still owed: %d", priority.ErrNotCounted, left)
	}
	return nil
}
