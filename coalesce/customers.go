package coalesce

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority"
)

// shard is some of the customers at the last level. There are several so that many
// goroutines can answer at once.
type shard struct {
	mu        sync.Mutex
	customers map[string]*entry
	moment    int  // goes up with all that is learned, and with each Reset
	reset     int  // the moment of this process's last Reset
	closed    bool // nothing is answered from memory any more
}

// entry is a customer at the last level. Its shard's mu guards it.
type entry struct {
	level        priority.Level
	known        int64         // the count, as the store told it last
	moment       int           // when it was told, or a Reset began or ended
	trustedUntil time.Time     // documents before this are answered from memory
	resetAt      time.Time     // when the count is over, if nothing comes
	renewal      time.Duration // what each document puts resetAt off to; 0: none does
	owed         int           // documents answered since, and not in the store
	settling     int           // documents that a settlement under way writes
}

// answer answers n documents from memory, if it can, with the decision of the last
// one.
func (s *Store) answer(ctx context.Context, customer string, n int) (priority.Decision, bool) {
	if n < 1 || ctx.Err() != nil {
		return priority.Decision{}, false
	}
	shard := s.shardOf(customer)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e, ok := shard.customers[customer]
	if !ok || shard.closed || e.owed+e.settling+n > priority.MaxDocuments { // the most that one Settle takes
		return priority.Decision{}, false
	}
	now := time.Now()
	if !now.Before(e.trustedUntil) {
		return priority.Decision{}, false
	}
	e.owed += n
	if e.renewal > 0 {
		e.resetAt = now.Add(e.renewal)
	}
	return priority.Decision{
		Level:     e.level,
		Count:     e.known - int64(e.owed+e.settling),
		ResetIn:   e.resetAt.Sub(now),
		Estimated: true,
	}, true
}

// question is what has to be known of a call of the store in order to learn from
// its answer.
type question struct {
	asked  time.Time
	moment int
}

func (s *Store) ask(customer string) question {
	shard := s.shardOf(customer)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	return question{asked: time.Now(), moment: shard.moment}
}

// learn remembers what the store decided for a customer, unless something else was
// learned since it was asked: nobody knows which of the two the store decided first.
func (s *Store) learn(customer string, decision priority.Decision, q question) {
	policy := s.PolicyOf(customer)
	shard := s.shardOf(customer)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	e, ok := shard.customers[customer]
	switch {
	case shard.closed || q.moment < shard.reset || ok && q.moment < e.moment:
	case ok && e.owed+e.settling > 0 && (!atLast(decision, policy) || decision.Count > e.known):
		// Reset by another process, or in a new tier. What is owed is counted by
		// what was known before, or not at all.
		e.trustedUntil = time.Time{}
		e.moment = shard.tick()
	case !atLast(decision, policy):
		s.drop(shard, customer)
	case ok:
		e.update(decision, policy, q.asked, s.interval)
		e.moment = shard.tick()
	case s.ledger.admit(s.most):
		if shard.customers == nil {
			shard.customers = make(map[string]*entry)
		}
		e = &entry{moment: shard.tick()}
		e.update(decision, policy, q.asked, s.interval)
		shard.customers[strings.Clone(customer)] = e // it may be a part of something large
		s.settleLater()
	}
}

// tick begins a new moment. The caller holds mu.
func (s *shard) tick() int {
	s.moment++
	return s.moment
}

// atLast reports whether a customer has the last level of several: only a reset
// gives them another one, unless it is by an operator's override.
func atLast(decision priority.Decision, policy priority.Policy) bool {
	return decision.Level == policy.Last() && decision.Level > priority.First && decision.Ruled == 0
}

// update takes what the store said of a customer. At the last level it is trusted
// for an interval, if the count outlives what that takes: an interval of answers,
// another until they are written, and a third for the writing.
func (e *entry) update(decision priority.Decision, policy priority.Policy, asked time.Time, interval time.Duration) {
	e.level, e.known = decision.Level, decision.Count
	e.resetAt, e.renewal, e.trustedUntil = asked.Add(decision.ResetIn), 0, time.Time{}
	if policy.ResetMode == priority.SinceLastUpdate {
		e.renewal = policy.ResetInterval
	}
	if atLast(decision, policy) && decision.ResetIn/3 >= interval {
		e.trustedUntil = asked.Add(interval)
	}
}

// owed returns how many documents of a customer were answered and may not be in
// the store yet.
func (s *Store) owed(customer string) int {
	shard := s.shardOf(customer)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	if e, ok := shard.customers[customer]; ok {
		return e.owed + e.settling
	}
	return 0
}

// beginReset keeps a customer from being answered from memory until end is told
// whether the count was reset. What answers to earlier questions say is not learned.
func (s *Store) beginReset(customer string) (end func(done bool)) {
	shard := s.shardOf(customer)
	shard.mu.Lock()
	defer shard.mu.Unlock()
	shard.reset = shard.tick()
	if e, ok := shard.customers[customer]; ok {
		e.trustedUntil = time.Time{}
		e.moment = shard.reset
	}
	return func(done bool) {
		shard.mu.Lock()
		defer shard.mu.Unlock()
		shard.reset = shard.tick()
		if done {
			s.drop(shard, customer)
		}
	}
}

// drop forgets a customer and what is owed. The caller holds the shard's mu.
func (s *Store) drop(shard *shard, customer string) {
	if _, ok := shard.customers[customer]; ok {
		delete(shard.customers, customer)
		s.ledger.held.Add(-1)
	}
}

func (s *Store) shardOf(customer string) *shard {
	return &s.shards[maphash.String(s.seed, customer)%uint64(len(s.shards))]
}
