package fallback

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

const (
	// backgroundTimeout bounds the calls of a primary without its own timeout.
	backgroundTimeout = time.Second
	// probeCalls are so many that not all of them go to the same node of a cluster.
	probeCalls = 8
)

// retryLater makes sure that a goroutine retries.
func (s *Store) retryLater() {
	if s.closed.Err() == nil && s.retries.CompareAndSwap(false, true) {
		go s.retry()
	}
}

// retry probes the primary, calls OnChange, and sends what the primary missed, again and again
// until there is nothing left to do.
func (s *Store) retry() {
	for {
		works := !s.breaker.needsProbe() || s.probe(s.closed)
		if open, cause := s.breaker.away(); open != s.told {
			s.told = open
			if s.opts.OnChange != nil {
				s.opts.OnChange(open, cause)
			}
		}
		select {
		case <-time.After(s.opts.RetryAfter):
		case <-s.closed.Done():
			return
		}
		if works {
			s.sendDones(s.closed)
		}
		s.retries.Store(false) // what fails from now on starts another one
		if !s.told && !s.breaker.needsProbe() && s.dones.len() == 0 || !s.retries.CompareAndSwap(false, true) {
			return
		}
	}
}

// probe reports whether the primary works for any of some customers. They do not exist.
func (s *Store) probe(ctx context.Context) bool {
	limited, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	var works atomic.Bool
	var wait sync.WaitGroup
	for range probeCalls {
		wait.Go(func() {
			// It has to be a write: a replica would answer a Peek.
			if _, err := s.primary.Done(limited, rand.Text(), rand.Text(), 0); reached(err) {
				works.Store(true)
			}
		})
	}
	wait.Wait()
	if ctx.Err() == nil && s.breaker.probed(works.Load()) {
		s.forget()
	}
	return works.Load()
}

// Close ends what runs in the background, and sends each Done that the primary missed
// once, until ctx ends or the primary works for nobody. Calls still work afterwards. An
// error wraps [priority.ErrNotCounted] and says how many Dones the primary still misses;
// Close may then be called again.
func (s *Store) Close(ctx context.Context) error {
	s.close()
	s.sendDones(ctx)
	s.breaker.ajar() // from now on only calls find out whether the primary works
	if left := s.dones.len(); left > 0 {
		return fmt.Errorf("%w: Dones still owed: %d", priority.ErrNotCounted, left)
	}
	return nil
}
