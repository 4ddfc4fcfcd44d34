package memory

import (
	"context"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
)

func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	return first(s.SubmitN(ctx, customer, []string{document}, []float64{cost}))
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	if err := check.Submit(customer, documents, costs); err != nil || len(documents) == 0 {
		return nil, err
	}
	policy, decisions := s.PolicyOf(customer), make([]priority.Decision, len(documents))
	relative := make([]int64, len(documents))
	for i, cost := range costs {
		relative[i] = s.submitCosts.Relative(cost)
	}
	return decisions, s.inChunks(ctx, "SubmitN", customer, len(documents), func(from, to int, now time.Time) {
		perCall := min(documentsPerCall, s.maxEntries())
		for first := from; first < to; first += perCall {
			end := min(first+perCall, to)
			s.submit(policy, customer, documents[first:end], relative[first:end], decisions[first:end], now)
		}
		if costs != nil {
			for _, cost := range costs[from:to] {
				s.submitCosts.Add(customer, cost)
			}
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
)

// submit decides about documents of one customer. The caller holds mu.
func (s *Store) submit(policy priority.Policy, name string, documents []string, costs []int64, decisions []priority.Decision, now time.Time) {
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
		if d := c.documents[document]; d != nil {
			if !d.at.Before(since) {
				again[document] = min(recent, 1000)
				recent -= again[document]
			}
			s.submitted.remove(d)
		}
	}
	all, ordinary := c.pending(since)
	beyond := all - ordinary
	for i, document := range documents {
		if d := c.documents[document]; d != nil { // the call has it twice
			if d.window == &c.ordinary {
				ordinary--
			} else {
				beyond--
			}
			s.submitted.remove(d)
		} else if was, ok := again[document]; ok {
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
		d := decide(policy, fair.Load(recent, ordinary+1, cost), beyond+1)
		d.Pending = pending
		last := d.Level > priority.Level(len(policy.Loads))
		if last {
			beyond++
		} else {
			ordinary++
		}
		s.submitted.add(c, document, now, d.Level, last)
		decisions[i] = d
	}
	if submits {
		c.history.Submitted(recent, now)
	}
}

// decide returns the decision for a load; beyond counts the documents beyond the last load,
// this one included.
func decide(policy priority.Policy, millionths, beyond int64) priority.Decision {
	load := float64(millionths) / 1e6
	level := policy.LevelOfLoad(load)
	if level > priority.Level(len(policy.Loads)) {
		level += priority.Level(fair.Turn(beyond, policy.Turns))
	}
	return priority.Decision{Level: level, RuleLevel: level, Load: load}
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	return first(s.DoneN(ctx, customer, []string{document}, took))
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	if err := check.Done(customer, documents, took); err != nil || len(documents) == 0 {
		return nil, err
	}
	ended := make([]priority.Ended, len(documents))
	return ended, s.inChunks(ctx, "DoneN", customer, len(documents), func(from, to int, now time.Time) {
		c := s.submitted.of(customer)
		if c == nil {
			return
		}
		known, each := !now.After(c.history.Fades), fair.Each(took, len(documents))
		cost := s.took.Relative(each)
		for i := from; i < to; i++ {
			d := c.documents[documents[i]]
			if d == nil {
				continue
			}
			s.submitted.remove(d)
			latency := now.Sub(d.at).Truncate(time.Millisecond)
			ended[i] = priority.Ended{Latency: latency, Level: d.level}
			if known {
				c.history.Done(latency, d.window == &c.beyond, cost)
			}
			s.took.Add(customer, each)
		}
	})
}
