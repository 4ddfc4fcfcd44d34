package priority

import (
	"container/list"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	mostShards        = 64
	customersPerShard = 1024 // at the least, where there are several shards
)

// shard is some of a Coalescer's customers. There are several so that many
// goroutines can answer at once.
type shard struct {
	mu        sync.Mutex
	customers *simplelru.LRU[string, *coalesced]
	most      int
	resetting int    // Resets under way
	resets    uint64 // Resets so far
}

// coalesced is a customer at the lowest level. Its shard's mu guards it.
type coalesced struct {
	customer string
	answer           // the store's last one
	owed     int     // documents answered since then, and not counted by the store
	flight   *flight // what is being done about it, nil if nothing

	// The flusher's mu guards these.
	queued *list.Element // nil if it is not in the queue
	due    time.Time
}

// answer is what the store said of a customer.
type answer struct {
	asked        time.Time // it is as old as this
	trustedUntil time.Time // documents before this are answered from memory
	resetAt      time.Time
	renewal      time.Duration // what each document puts resetAt off to; 0: none does
	count        int64
	level        Level
}

// answers reports whether n documents can be answered from memory.
func (e *coalesced) answers(n int, now time.Time) bool {
	return now.Before(e.trustedUntil) && e.owed+n <= MaxDocuments
}

func (e *coalesced) distrust() { e.trustedUntil = time.Time{} }

func newShards(customers int) []shard {
	n := min(max(customers/customersPerShard, 1), mostShards)
	shards := make([]shard, n)
	for i := range shards {
		most := customers / n
		lru, err := simplelru.NewLRU[string, *coalesced](most, nil)
		if err != nil {
			panic(err) // most is above 0
		}
		shards[i].customers, shards[i].most = lru, most
	}
	return shards
}

// found is what a look into the memory gives.
type found int

const (
	nothing found = iota // the store has to be asked
	anAnswer
	aDebt // what is owed has to be settled; then there may be an answer
)

// look answers n documents from memory, if it can, with the decision of the last
// one. With n = 0 it changes nothing.
func (c *Coalescer) look(customer string, n int) (Decision, found) {
	s := c.shardOf(customer)
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.customers.Get(customer)
	switch {
	case !ok || c.closed.Load():
		return Decision{}, nothing
	case !e.answers(n, now):
		if e.owed > 0 {
			return Decision{}, aDebt
		}
		return Decision{}, nothing
	}
	if n > 0 {
		if e.owed == 0 {
			c.flusher.add(e, now.Add(c.interval))
		}
		e.owed += n
		if e.renewal > 0 {
			e.resetAt = now.Add(e.renewal)
		}
	}
	return Decision{
		Level:     e.level,
		Count:     e.count - int64(e.owed),
		ResetIn:   e.resetAt.Sub(now),
		Estimated: true,
	}, anAnswer
}

// question is what has to be known of a call of the store in order to learn from
// its answer.
type question struct {
	asked  time.Time
	resets uint64
}

func (c *Coalescer) question(customer string) question {
	s := c.shardOf(customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	return question{asked: time.Now(), resets: s.resets}
}

// learn remembers what the store decided for a customer, unless a Reset of this
// Coalescer may have come after the decision.
func (c *Coalescer) learn(customer string, decision Decision, q question) {
	if decision.Degraded {
		return
	}
	answer := c.answerOf(decision, c.store.PolicyOf(customer), q.asked)
	trusted := answer.trustedUntil.After(q.asked)
	s := c.shardOf(customer)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.closed.Load() || s.resetting > 0 || s.resets != q.resets {
		return
	}
	e, ok := s.customers.Peek(customer)
	switch {
	case !ok:
		if trusted && c.makeRoom(s) {
			customer = strings.Clone(customer) // it may be a part of something large
			s.customers.Add(customer, &coalesced{customer: customer, answer: answer})
		}
	case q.asked.Before(e.asked):
	case trusted:
		e.answer = answer
	case e.owed == 0 && e.flight == nil:
		c.drop(s, e)
	default: // the count at which it is owed still tells a reset
		e.distrust()
	}
}

// answerOf reads a decision of the store. It is trusted for an interval if the
// count is at the lowest level and outlives what that takes: an interval of
// answers, another until they are written, and a third for the writing.
func (c *Coalescer) answerOf(decision Decision, policy Policy, asked time.Time) answer {
	a := answer{asked: asked, resetAt: asked.Add(decision.ResetIn), count: decision.Count, level: decision.Level}
	if policy.ResetMode == SinceLastUpdate {
		a.renewal = policy.ResetInterval
	}
	if decision.Level == policy.Lowest() && decision.ResetIn/3 >= c.interval {
		a.trustedUntil = asked.Add(c.interval)
	}
	return a
}

// makeRoom makes room for one more customer, in place of the one who was used
// least recently. Where documents are owed for that one they are flushed first,
// and there is room later. The caller holds mu.
func (c *Coalescer) makeRoom(s *shard) bool {
	if s.customers.Len() < s.most {
		return true
	}
	_, oldest, _ := s.customers.GetOldest()
	if oldest.owed == 0 && oldest.flight == nil {
		s.customers.RemoveOldest()
		return true
	}
	if oldest.flight == nil {
		c.flusher.hasten(oldest)
	}
	return false
}

// drop forgets a customer and what is owed. The caller holds mu.
func (c *Coalescer) drop(s *shard, e *coalesced) {
	if held, ok := s.customers.Peek(e.customer); ok && held == e {
		s.customers.Remove(e.customer)
	}
	c.flusher.remove(e)
	e.owed = 0
}
