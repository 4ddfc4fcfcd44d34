package memory

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/internal/keys"
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
		perCall := min(documentsPerCall, max(s.maxEntries()/2, 1)) // an account has them, too
		for first := from; first < to; first += perCall {
			end := min(first+perCall, to)
			s.submit(policy, customer, documents[first:end], costs[first:end], decisions[first:end], now)
		}
		for _, document := range documents[from:to] {
			s.submitCosts.Add(keys.Payer(customer, s.accounts), document.Cost)
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

// submit decides about documents of one customer, as lua/submit.lua does. The caller holds mu.
func (s *Store) submit(policy priority.Policy, name string, documents []priority.Document, costs []int64, decisions []priority.Decision, now time.Time) {
	delayed := slices.ContainsFunc(documents, func(d priority.Document) bool { return d.Delay >= time.Millisecond })
	books := s.submits(name, len(documents), delayed, now)
	user, taken := &books[0], make([]int64, len(books))
	for i, new := range documents {
		due, cost := now.Add(new.Delay.Truncate(time.Millisecond)), costs[i]
		if cost == 0 {
			cost = user.average
		}
		level := priority.First
		if policy.InOrder {
			level = min(user.order(due), s.Last())
		}
		var pending *document
		for b := range books {
			var before *document
			if before, taken[b] = books[b].take(&s.submitted, new.ID, due); b == 0 {
				pending = before
			}
		}
		load, byLoad, isFlood := judge(policy, books, due, taken, cost)
		if level = max(level, byLoad); pending != nil {
			level, isFlood = pending.level, pending.window == &user.flood
		}
		for b := range books {
			s.submitted.add(books[b].customer, &document{id: books[b].member(new.ID), due: due, level: level}, now, isFlood)
		}
		ordinary, flood := user.pending(due)
		decisions[i] = priority.Decision{Level: level, RuleLevel: level, Load: load, Pending: ordinary + flood}
	}
	for _, b := range books {
		if b.history.Fades.IsZero() || b.changed {
			b.history.Submitted(b.counted, now)
		}
	}
}

// judge decides about a new document by the books of its customer, and of the account if there is
// one. further has, for each book, how many recent documents are not in it.
func judge(policy priority.Policy, books []book, due time.Time, further []int64, cost int64) (load float64, level priority.Level, isFlood bool) {
	load, level, isFlood = books[0].judge(policy, due, further[0], cost)
	if len(books) == 1 {
		return load, level, isFlood
	}
	account := &books[1]
	_, ofAccount, isAccountsFlood := account.judge(policy, due, further[1], cost)
	if isFlood || isAccountsFlood {
		_, flood := account.pending(due)
		return load, policy.LevelOfLoad(math.Inf(1), flood+1), true
	}
	return load, max(level, ofAccount-1), false
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
		each := fair.Each(took, len(documents))
		cost := s.took.Relative(each)
		for b, book := range s.books(customer, now, s.submitted.find) {
			for i, e := range s.end(book, documents, from, to, cost, now, late) {
				if b == 0 && e.Level > 0 { // the customer's own
					ended[from+i] = e
					s.took.Add(keys.Payer(customer, s.accounts), each)
				}
			}
		}
	})
}

// end ends some of the documents in one book, which were done as long ago as late says if it is not
// nil, as lua/done.lua does. The caller holds mu.
func (s *Store) end(b book, documents []string, from, to int, cost int64, now time.Time, late func(i int) time.Duration) []priority.Ended {
	ended, isRemembered, uncounted := make([]priority.Ended, to-from), !now.After(b.history.Fades), int64(0)
	for i, id := range documents[from:to] {
		d, done := b.documents[b.member(id)], now
		if late != nil {
			done = now.Add(-late(from + i).Truncate(time.Millisecond))
		}
		if d == nil || late != nil && d.due.After(done) {
			continue
		}
		isUncounted := b.isUncounted(d.due)
		s.submitted.remove(d)
		latency := max(done.Sub(d.due), 0)
		ended[i] = priority.Ended{Latency: latency, Level: d.level}
		if d.due.After(now) { // it did not wait
			continue
		}
		if isUncounted {
			if uncounted++; !isRemembered {
				b.history, isRemembered = fair.History{Lost: b.history.Lost}, true
			}
		}
		if isRemembered {
			b.history.Done(now, latency, d.window == &b.flood, cost)
		}
	}
	if b.add(1000 * uncounted); uncounted > 0 {
		b.history.Fades = now // it is remembered
		b.history.Submitted(b.counted, now)
	}
	return ended
}
