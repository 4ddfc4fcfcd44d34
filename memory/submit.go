package memory

import (
	"context"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
)

func (s *Store) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return first(s.SubmitN(ctx, customer, []priority.Document{document}))
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	if err := check.SubmitN(customer, documents); err != nil || len(documents) == 0 {
		return nil, err
	}
	policy, decisions := s.PolicyOf(customer), make([]priority.Decision, len(documents))
	costs := make([]int64, len(documents))
	for i, document := range documents {
		costs[i] = s.submitCosts.Relative(document.Cost)
	}
	return decisions, s.inChunks(ctx, "SubmitN", customer, len(documents), func(from, to int, now time.Time) {
		perCall := min(documentsPerCall, s.maxEntries())
		for first := from; first < to; first += perCall {
			end := min(first+perCall, to)
			s.submit(policy, customer, documents[first:end], costs[first:end], decisions[first:end], now)
		}
		for _, document := range documents[from:to] {
			s.submitCosts.Add(customer, document.Cost)
		}
	})
}

const (
	// documentsPerCall is how many documents a RedisStore submits at once.
	documentsPerCall = 50
	// itemsPerLock is how many items a call handles before it lets others take the
	// lock.
	itemsPerLock      = 1000
	defaultMaxEntries = 1_000_000
	maxLevels         = 255 // as for a RedisStore
)

// submit decides about documents of one customer. The caller holds mu.
func (s *Store) submit(policy priority.Policy, name string, documents []priority.Document, costs []int64, decisions []priority.Decision, now time.Time) {
	s.submitted.makeRoom(name, len(documents), s.maxEntries())
	c := s.submitted.use(name, now)
	c.history = c.history.At(now)
	since := now.Add(-c.history.Lease(s.Lease()))
	recent, submits := c.history.Recent(now), false
	pending, _ := c.pending(since)
	// Documents that are already pending, as after a lost reply, are decided as if
	// they were new.
	again := make(map[string]int64) // their shares of the recent ones
	for _, document := range documents {
		if d := c.documents[document.ID]; d != nil {
			if !d.at.Before(since) {
				again[document.ID] = min(recent, 1000)
				recent -= again[document.ID]
			}
			s.submitted.remove(d)
		}
	}
	all, ordinary := c.pending(since)
	flood := all - ordinary
	for i, document := range documents {
		if d := c.documents[document.ID]; d != nil { // the call has it twice
			if d.window == &c.ordinary {
				ordinary--
			} else {
				flood--
			}
			s.submitted.remove(d)
		} else if was, ok := again[document.ID]; ok {
			recent += was
		} else {
			submits = true
			recent += 1000
			pending++
		}
		cost := costs[i]
		if cost == 0 {
			cost = c.history.Average()
		}
		d := decide(policy, fair.Load(recent, ordinary+1, cost), flood+1)
		d.Pending = pending
		isFlood := d.Level > priority.Level(len(policy.Loads))
		if isFlood {
			flood++
		} else {
			ordinary++
		}
		s.submitted.add(c, document.ID, now, d.Level, isFlood)
		decisions[i] = d
	}
	if submits {
		c.history.Submitted(recent, now)
	}
}

// decide returns the decision for a load; pendingFlood is how many of the customer's documents
// are beyond the last load, this one included.
func decide(policy priority.Policy, millionths, pendingFlood int64) priority.Decision {
	load := float64(millionths) / 1e6
	level := policy.LevelOfLoad(load, pendingFlood)
	return priority.Decision{Level: level, RuleLevel: level, Load: load}
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	return first(s.DoneN(ctx, customer, []string{document}, took))
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	return s.doneN(ctx, "DoneN", customer, documents, took, nil)
}

// DoneLate is a DoneN of documents that were done some time ago. It leaves those pending that
// were submitted again since then.
func (s *Store) DoneLate(ctx context.Context, customer string, documents []priority.Late, took time.Duration) ([]priority.Ended, error) {
	ids := make([]string, len(documents))
	for i, document := range documents {
		ids[i] = document.ID
	}
	began := time.Now()
	return s.doneN(ctx, "DoneLate", customer, ids, took, func(i int) time.Duration { return max(began.Sub(documents[i].Since), 0) })
}

// doneN ends documents that were done as long ago as late says, if that is not nil.
func (s *Store) doneN(ctx context.Context, operation, customer string, documents []string, took time.Duration,
	late func(i int) time.Duration) ([]priority.Ended, error) {
	if err := check.DoneN(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	ended := make([]priority.Ended, len(documents))
	return ended, s.inChunks(ctx, operation, customer, len(documents), func(from, to int, now time.Time) {
		c := s.submitted.find(customer)
		if c == nil {
			return
		}
		isRemembered, each := !now.After(c.history.Fades), fair.Each(took, len(documents))
		cost := s.took.Relative(each)
		for i := from; i < to; i++ {
			d := c.documents[documents[i]]
			done := now
			if late != nil {
				done = now.Add(-late(i))
			}
			if d == nil || late != nil && d.at.UnixMilli() > done.UnixMilli() {
				continue
			}
			s.submitted.remove(d)
			latency := max(done.Sub(d.at), 0).Truncate(time.Millisecond)
			ended[i] = priority.Ended{Latency: latency, Level: d.level}
			if isRemembered {
				c.history.Done(latency, d.window == &c.flood, cost)
			}
			s.took.Add(customer, each)
		}
	})
}
