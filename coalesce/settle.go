package coalesce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// betweenTries is the pause before Close tries again what was not counted.
const betweenTries = 50 * time.Millisecond

// ledger says when there is a settlement, and who may hold one.
type ledger struct {
	held atomic.Int64  // customers in memory
	turn chan struct{} // of one: who settles holds it

	mu     sync.Mutex
	timed  bool // a timer will settle
	closed bool
}

// admit makes room for one more customer of at most so many.
func (l *ledger) admit(most int64) bool {
	if l.held.Add(1) > most {
		l.held.Add(-1)
		return false
	}
	return true
}

// settleLater has what is owed settled in an interval. While there are customers in
// memory there is a settlement every interval.
func (s *Store) settleLater() {
	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	if !s.ledger.timed && !s.ledger.closed {
		s.ledger.timed = true
		time.AfterFunc(s.interval, s.settleNow)
	}
}

// settleNow settles what is owed, and sees to the next time.
func (s *Store) settleNow() {
	start := time.Now()
	select {
	case s.ledger.turn <- struct{}{}:
	default:
		return // Close is at it
	}
	ctx, cancel := context.WithTimeout(context.Background(), max(s.interval, time.Second))
	r := s.settle(ctx, start)
	cancel()
	<-s.ledger.turn
	if err := r.err(); err != nil && s.onError != nil {
		s.onError(err)
	}

	s.ledger.mu.Lock()
	defer s.ledger.mu.Unlock()
	s.ledger.timed = s.ledger.held.Load() > 0 && !s.ledger.closed
	if s.ledger.timed {
		time.AfterFunc(max(0, s.interval-time.Since(start)), s.settleNow)
	}
}

// Close writes what is owed to the store, and tries again what the store did not
// count, until ctx ends or nothing more can be written. Later calls go straight to
// the store. After nil nothing is owed. An error tells how many documents may be
// lost ([priority.ErrOutcomeUnknown], [priority.ErrCorruptCount]) and how many are
// still owed ([priority.ErrNotCounted]): for these Close may be called again.
func (s *Store) Close(ctx context.Context) error {
	s.ledger.mu.Lock()
	s.ledger.closed = true
	s.ledger.mu.Unlock()
	for i := range s.shards {
		s.shards[i].mu.Lock()
		s.shards[i].closed = true
		s.shards[i].mu.Unlock()
	}
	select {
	case s.ledger.turn <- struct{}{}:
	default:
		select {
		case s.ledger.turn <- struct{}{}:
		case <-ctx.Done():
			return fmt.Errorf("%w: a settlement of %d documents is under way: %w", priority.ErrOutcomeUnknown, s.unwritten(), ctx.Err())
		}
	}
	defer func() { <-s.ledger.turn }()
	var all report
	for {
		r := s.settle(ctx, time.Now())
		if r.lost > 0 || all.lost == 0 {
			all.cause = r.cause
		}
		all.kept, all.lost = r.kept, all.lost+r.lost
		if r.kept == 0 {
			return all.err()
		}
		select {
		case <-ctx.Done():
			return all.err()
		case <-time.After(betweenTries):
		}
	}
}

// unwritten returns how many documents are owed or being settled.
func (s *Store) unwritten() (n int) {
	for i := range s.shards {
		s.shards[i].mu.Lock()
		for _, e := range s.shards[i].customers {
			n += e.owed + e.settling
		}
		s.shards[i].mu.Unlock()
	}
	return n
}

// report is what a settlement could not write.
type report struct {
	kept  int   // documents that are not counted, and still owed
	lost  int   // documents that may be counted, or never can be
	cause error // of the last that was lost, or else kept
}

func (r report) err() error {
	if r.kept+r.lost == 0 {
		return nil
	}
	return fmt.Errorf("%w (%d documents are still owed, %d documents may be lost)", r.cause, r.kept, r.lost)
}

// debt is what is being written for a customer, and the entry's moment then.
type debt struct {
	*shard
	*entry
	moment int
}

// settle writes all that is owed, in one call of the store, and forgets customers
// who are not trusted any more and for whom nothing is owed. The caller has the
// turn.
func (s *Store) settle(ctx context.Context, now time.Time) (r report) {
	owed, debts := s.collect(ctx, now)
	if len(owed) == 0 {
		return r
	}
	decisions, err := s.settler.Settle(ctx, owed)
	failures := priority.ItemErrors(err, len(owed))
	for i, o := range owed {
		policy := s.PolicyOf(o.Customer)
		shard, e := debts[i].shard, debts[i].entry
		shard.mu.Lock()
		e.settling = 0
		current := e.moment == debts[i].moment // nothing was learned since
		switch err := failures[i]; {
		case shard.customers[o.Customer] != e: // it was reset by this process
		case err == nil && current:
			e.update(decisions[i], policy, now, s.interval)
		case errors.Is(err, priority.ErrWasReset) && current:
			s.drop(shard, o.Customer)
		case err == nil || errors.Is(err, priority.ErrWasReset):
		case errors.Is(err, priority.ErrNotCounted):
			e.owed += o.Documents
			e.trustedUntil = time.Time{}
			if r.kept += e.owed; r.lost == 0 {
				r.cause = err
			}
		default: // of unknown outcome, or it cannot be counted at all
			e.trustedUntil = time.Time{}
			r.lost += o.Documents
			r.cause = err
		}
		shard.mu.Unlock()
	}
	return r
}

// collect takes what is owed by all customers. Those who are trusted stay trusted
// while it is written.
func (s *Store) collect(ctx context.Context, now time.Time) (owed []priority.Owed, debts []debt) {
	until, _ := ctx.Deadline()
	for i := range s.shards {
		shard := &s.shards[i]
		shard.mu.Lock()
		for customer, e := range shard.customers {
			trusted := now.Before(e.trustedUntil.Add(s.interval))
			switch {
			case e.owed > 0 && now.After(e.resetAt): // the count is over, and they with it
				s.drop(shard, customer)
			case e.owed > 0:
				if trusted {
					e.trustUntil(until, s.interval)
				}
				owed = append(owed, priority.Owed{Customer: customer, Documents: e.owed, Known: e.known})
				debts = append(debts, debt{shard, e, e.moment})
				e.settling, e.owed = e.owed, 0
			case !now.Before(e.trustedUntil):
				s.drop(shard, customer)
			}
		}
		shard.mu.Unlock()
	}
	return owed, debts
}

// trustUntil extends the trust in an entry, if the count outlives it.
func (e *entry) trustUntil(until time.Time, interval time.Duration) {
	if end := e.resetAt.Add(-interval); end.Before(until) {
		until = end
	}
	if until.After(e.trustedUntil) {
		e.trustedUntil = until
	}
}
