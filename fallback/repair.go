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

const (
	// backgroundTimeout bounds the calls of a primary without a timeout of its own.
	backgroundTimeout = time.Second
	// mostProbed is how many customers a probe covers at a time.
	mostProbed = 64
)

// repair is what happens in the background while the primary fails or Dones are
// owed to it: probes, and the payment of the Dones.
type repair struct {
	every    time.Duration
	onChange func(open bool, cause error)
	strayed  atomic.Bool // the secondary was asked since the circuit was last closed
	suspect  atomic.Bool // a call failed since the last probe

	turn   chan struct{} // of capacity 1: held while probing and paying
	mu     sync.Mutex
	timed  bool
	closed atomic.Bool

	told    bool // the last argument of OnChange; guarded by mu
	telling bool // a goroutine calls OnChange; guarded by mu

	candidates [8]atomic.Pointer[string] // different customers whom a probe covers
	suggested  atomic.Uint32             // how many were suggested
	hung       hung
}

// suggest adds a customer to the next probes, in place of the one added first.
// There are several, so that a customer whose node hangs does not keep the circuit
// open.
func (r *repair) suggest(customer string) {
	if priority.CheckCustomer(customer) != nil {
		return
	}
	for i := range r.candidates {
		if held := r.candidates[i].Load(); held != nil && *held == customer {
			return
		}
	}
	r.candidates[r.suggested.Add(1)%uint32(len(r.candidates))].Store(&customer)
}

// repairLater schedules a probe or a payment.
func (s *Store) repairLater() {
	s.repair.mu.Lock()
	defer s.repair.mu.Unlock()
	if s.repair.closed.Load() || s.repair.timed {
		return
	}
	s.repair.timed = true
	time.AfterFunc(s.repair.every, s.repairNow)
}

func (s *Store) repairNow() {
	s.repair.turn <- struct{}{}
	if !s.repair.closed.Load() {
		suspect := s.repair.suspect.Swap(false)
		if !suspect && !s.Degraded() || s.probe() {
			s.dones.pay(context.Background(), &round{stopped: s.repair.closed.Load, skip: s.repair.hung.has, onError: s.onError})
		}
		s.later.pay(context.Background(), &round{stopped: s.repair.closed.Load, onError: s.onSecondError})
	}
	<-s.repair.turn

	s.repair.mu.Lock()
	defer s.repair.mu.Unlock()
	s.repair.timed = !s.repair.closed.Load() && (s.repair.suspect.Load() || s.Degraded() || s.dones.len() > 0 || s.later.len() > 0)
	if s.repair.timed {
		time.AfterFunc(s.repair.every, s.repairNow)
	}
}

// probe finds out for whom the primary answers, and half-opens an open circuit if
// it answers for anybody. The caller has the turn.
func (s *Store) probe() bool {
	works := s.circuit.worked.Swap(false) && !s.circuit.open() // for others
	var customers []string
	for i := range s.repair.candidates {
		if customer := s.repair.candidates[i].Load(); customer != nil {
			customers = append(customers, *customer)
		}
	}
	hung := slices.DeleteFunc(s.repair.hung.all(), func(customer string) bool { return slices.Contains(customers, customer) })
	suggested, most := len(customers), len(s.repair.candidates)
	customers = append(customers, hung[:min(most, len(hung))]...)
	hung = hung[len(customers)-suggested:]
	errs := s.probeEach(customers)
	works = works || slices.ContainsFunc(errs, reached)
	if !works {
		if s.circuit.confirm(errs) == opened {
			s.tell()
		}
		return false
	}
	s.noteHung(customers, errs)
	// As long as the primary works again for most of these, it may for the others
	// too.
	for again := errs[suggested:]; mostly(again) && len(hung) > 0 && !s.repair.closed.Load(); {
		most = min(2*most, mostProbed, len(hung))
		again = s.probeEach(hung[:most])
		s.noteHung(hung[:most], again)
		hung = hung[most:]
	}
	if s.circuit.probed() == recovered {
		s.recovered()
	}
	return true
}

// probeEach asks the primary for each customer, all at the same time.
func (s *Store) probeEach(customers []string) []error {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	errs := make([]error, len(customers))
	var wait sync.WaitGroup
	for i, customer := range customers {
		// A probe has to be a write: a replica would answer a Peek.
		wait.Go(func() { errs[i] = s.primary.Done(ctx, customer, rand.Text(), 0) })
	}
	wait.Wait()
	return errs
}

// noteHung records for which customers the primary fails, though it works for others.
func (s *Store) noteHung(customers []string, errs []error) {
	for i, customer := range customers {
		if reached(errs[i]) {
			s.repair.hung.remove(customer)
		} else {
			s.repair.hung.add(customer)
		}
	}
}

// mostly reports whether the primary worked for at least half of the customers.
func mostly(errs []error) bool {
	worked := 0
	for _, err := range errs {
		if reached(err) {
			worked++
		}
	}
	return 2*worked >= len(errs)
}

// tell calls OnChange in the background if the circuit has opened or closed since
// its last call. A half-open circuit counts as open.
func (s *Store) tell() {
	s.repair.mu.Lock()
	defer s.repair.mu.Unlock()
	if s.repair.onChange != nil && !s.repair.telling {
		s.repair.telling = true
		go s.tellAll()
	}
}

// tellAll calls OnChange until it has reported the present state. Its calls never
// overlap.
func (s *Store) tellAll() {
	for {
		s.repair.mu.Lock()
		open, cause := s.circuit.away()
		if open == s.repair.told {
			s.repair.telling = false
			s.repair.mu.Unlock()
			return
		}
		s.repair.told = open
		s.repair.mu.Unlock()
		s.repair.onChange(open, cause)
	}
}

// Close ends what runs in the background, and sends each Done that is owed once, until
// ctx ends or the store fails too often. Calls still work afterwards. An error wraps
// [priority.ErrNotCounted] and says how many Dones are still owed; Close may then be
// called again.
func (s *Store) Close(ctx context.Context) error {
	s.repair.mu.Lock()
	s.repair.closed.Store(true)
	s.repair.mu.Unlock()
	select {
	case s.repair.turn <- struct{}{}:
		never := func() bool { return false }
		works := func(customer string) bool { return !s.repair.hung.has(customer) }
		s.dones.pay(ctx, &round{stopped: never, skip: s.repair.hung.has, onError: s.onError})
		s.dones.pay(ctx, &round{stopped: never, skip: works, onError: s.onError})
		s.later.pay(ctx, &round{stopped: never, onError: s.onSecondError})
		<-s.repair.turn
	case <-ctx.Done():
	}
	if left := s.dones.len() + s.later.len(); left > 0 {
		return fmt.Errorf("%w: Dones still owed: %d", priority.ErrNotCounted, left)
	}
	return nil
}
