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
	// mostFailedPayments ends a round of payments: the primary is away again.
	mostFailedPayments = 3
	// backgroundTimeout bounds the calls of a primary without a timeout of its own.
	backgroundTimeout = time.Second
)

// repair is what happens in the background while the primary fails or Dones are
// owed to it: a trial now and then, and the payment of the Dones.
type repair struct {
	every    time.Duration
	onChange func(open bool, cause error)
	strayed  atomic.Bool // the secondary was asked since the circuit was last closed

	turn   chan struct{} // of one: who tries and pays holds it
	mu     sync.Mutex
	timed  bool
	closed atomic.Bool

	told    bool // what OnChange was told last; guarded by mu
	telling bool // somebody tells it; guarded by mu

	candidates [8]atomic.Pointer[string] // different customers whom a trial asks for
	suggested  atomic.Uint32             // how many there were

	// hung are the candidates for whom the primary failed when it worked for
	// another one: calls for them alone go to the secondary at once. Nil: nobody.
	hung atomic.Pointer[[]string]
}

// suggest notes a customer for a trial, in place of the one who was noted first.
// There are several, so that a customer whose own node hangs does not keep the
// circuit open.
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

// hangs reports whether the primary fails for this customer and not for others.
func (r *repair) hangs(customer string) bool {
	hung := r.hung.Load()
	return hung != nil && slices.Contains(*hung, customer)
}

// repairLater sees to it that there is a trial or a payment in a while.
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
	if !s.repair.closed.Load() && (!s.Degraded() || s.trial()) {
		s.pay(context.Background(), s.repair.closed.Load)
	}
	<-s.repair.turn

	s.repair.mu.Lock()
	defer s.repair.mu.Unlock()
	s.repair.timed = !s.repair.closed.Load() && (s.Degraded() || s.dones.len() > 0)
	if s.repair.timed {
		time.AfterFunc(s.repair.every, s.repairNow)
	}
}

// trial finds out for whom the primary answers, and closes the circuit if there is
// anybody. The caller has the turn.
func (s *Store) trial() bool {
	ctx, cancel := context.WithTimeout(context.Background(), backgroundTimeout)
	defer cancel()
	var works, hangs [len(s.repair.candidates)]string
	var wait sync.WaitGroup
	for i := range s.repair.candidates {
		if customer := s.repair.candidates[i].Load(); customer != nil {
			wait.Go(func() {
				// It has to write something, for a replica would answer a Peek.
				if err := s.primary.Done(ctx, *customer, rand.Text(), 0); reached(err) {
					works[i] = *customer
				} else {
					hangs[i] = *customer
				}
			})
		}
	}
	wait.Wait()
	empty := func(customer string) bool { return customer == "" }
	if len(slices.DeleteFunc(works[:], empty)) == 0 {
		return false
	}
	if hung := slices.DeleteFunc(hangs[:], empty); len(hung) > 0 {
		s.repair.hung.Store(&hung)
	} else {
		s.repair.hung.Store(nil)
	}
	if s.circuit.tried() == recovered {
		s.recovered()
	}
	return true
}

// pay sends the Dones that are owed, customer by customer, until the primary fails
// too often, ctx ends or it is stopped. The caller has the turn.
func (s *Store) pay(ctx context.Context, stopped func() bool) {
	failures := 0
	for _, customer := range s.dones.customers() {
		for more := true; more; {
			if ctx.Err() != nil || stopped() || failures == mostFailedPayments {
				return
			}
			var err error
			if more, err = s.payFor(ctx, customer); !reached(err) {
				failures++
			}
		}
	}
}

// payFor sends Dones of one customer, and reports whether there may be more of them
// to send.
func (s *Store) payFor(ctx context.Context, customer string) (more bool, err error) {
	p := s.dones.pay(customer)
	if len(p.documents) == 0 { // all are sent, or a Submit or a Reset came first
		s.dones.paid(p, nil)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, backgroundTimeout)
	defer cancel()
	err = s.primary.DoneN(ctx, customer, p.documents, p.took)
	s.dones.paid(p, priority.ItemErrors(err, len(p.documents)))
	if err != nil && s.onError != nil {
		s.onError(err)
	}
	return err == nil && len(p.documents) == mostPaid, err
}

// tell has OnChange told whether the circuit is open, if that has changed. A circuit
// that is closed on trust counts as open: it may never have been away.
func (s *Store) tell() {
	s.repair.mu.Lock()
	defer s.repair.mu.Unlock()
	if s.repair.onChange != nil && !s.repair.telling {
		s.repair.telling = true
		go s.tellAll()
	}
}

// tellAll tells OnChange until it knows. It is never told twice at the same time.
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

// Close sends the Dones that are owed to the primary, each once, until ctx ends or
// the primary fails too often, and ends what happens in the background. Calls still
// work after it. An error wraps [priority.ErrNotCounted] and tells how many Dones
// are still owed: for these Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.repair.mu.Lock()
	s.repair.closed.Store(true)
	s.repair.mu.Unlock()
	select {
	case s.repair.turn <- struct{}{}:
		s.pay(ctx, func() bool { return false })
		<-s.repair.turn
	case <-ctx.Done():
	}
	if left := s.dones.len(); left > 0 {
		return fmt.Errorf("%w: Dones still owed to the primary: %d", priority.ErrNotCounted, left)
	}
	return nil
}
