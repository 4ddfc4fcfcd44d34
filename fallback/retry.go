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
)

// backgroundTimeout bounds the calls of a primary without a timeout of its own.
const backgroundTimeout = time.Second

// retry is what happens in the background after a failure: probes, and the Dones that the
// primary missed.
type retry struct {
	turn   chan struct{} // of capacity 1: held while it happens
	closed atomic.Bool

	mu     sync.Mutex
	timed  bool
	recent []string // different customers whom a probe covers, the newest last
}

// mostRecent bounds the customers of a probe. There are several, so that a customer whose
// node hangs does not keep the circuit open.
const mostRecent = 8

// suggest adds a customer to the next probes.
func (r *retry) suggest(customer string) {
	if priority.CheckCustomer(customer) != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.recent, customer) {
		return
	}
	if len(r.recent) == mostRecent {
		r.recent = slices.Delete(r.recent, 0, 1)
	}
	r.recent = append(r.recent, customer)
}

// retryLater schedules a retry, unless one is scheduled.
func (s *Store) retryLater() {
	s.retry.mu.Lock()
	defer s.retry.mu.Unlock()
	if !s.retry.closed.Load() && !s.retry.timed {
		s.retry.timed = true
		time.AfterFunc(s.opts.RetryAfter, s.retryNow)
	}
}

func (s *Store) retryNow() {
	s.retry.turn <- struct{}{}
	if !s.retry.closed.Load() && (!s.Degraded() || s.probe()) {
		s.sendDones(context.Background(), s.retry.closed.Load)
	}
	if !s.Degraded() && s.used.Swap(false) {
		s.memory.Clear() // what was counted there in between
	}
	<-s.retry.turn

	s.retry.mu.Lock()
	s.retry.timed = false
	s.retry.mu.Unlock()
	if s.Degraded() || s.dones.len() > 0 {
		s.retryLater()
	}
}

// probe asks the primary for some customers, all at the same time, and reports whether it
// works for any.
func (s *Store) probe() bool {
	s.retry.mu.Lock()
	customers := slices.Clone(s.retry.recent)
	s.retry.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	var works atomic.Bool
	var wait sync.WaitGroup
	for _, customer := range customers {
		wait.Go(func() {
			// It has to be a write: a replica would answer a Peek.
			if reached(s.primary.Done(ctx, customer, rand.Text(), 0)) {
				works.Store(true)
			}
		})
	}
	wait.Wait()
	if s.breaker.probed(works.Load()) {
		s.recovered()
	}
	return works.Load()
}

// news is what OnChange was told.
type news struct {
	mu   sync.Mutex
	told bool // its last argument
	busy bool // a goroutine calls it
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

// tellAll calls OnChange until it knows the present state. Its calls never overlap.
func (s *Store) tellAll() {
	for {
		s.news.mu.Lock()
		open, cause := s.breaker.away()
		if open == s.news.told {
			s.news.busy = false
			s.news.mu.Unlock()
			return
		}
		s.news.told = open
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
