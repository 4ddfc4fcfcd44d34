// Package ledger records the answers that a Store's callers got, and compares them
// with what Redis holds in the end: nothing counted twice, nothing missing.
package ledger

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/keys"
)

// Totals are documents by the answers that callers got.
type Totals struct {
	Documents      int
	Answered       int
	NotCounted     int
	OutcomeUnknown int
	Other          int // any other error
}

// Ledger is safe for concurrent use. Its customers either count documents or submit one,
// and must not be reset while it is in use. The zero value is ready to use.
type Ledger struct {
	mu        sync.Mutex
	totals    Totals
	customers map[string]*account
}

type account struct {
	counts   map[int64]bool // that documents were answered with
	twice    int            // how often one of them was there already
	answered int
	unknown  int // outcomes
}

// Note notes the outcome of one document.
func (l *Ledger) Note(customer string, decision priority.Decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.customers[customer]
	if a == nil {
		if l.customers == nil {
			l.customers = make(map[string]*account)
		}
		a = &account{counts: make(map[int64]bool)}
		l.customers[customer] = a
	}
	l.totals.Documents++
	switch {
	case err == nil:
		l.totals.Answered++
		a.answered++
		if a.counts[decision.Count] {
			a.twice++
		}
		a.counts[decision.Count] = true
	case errors.Is(err, priority.ErrNotCounted):
		l.totals.NotCounted++
	case errors.Is(err, priority.ErrOutcomeUnknown):
		l.totals.OutcomeUnknown++
		a.unknown++
	default:
		l.totals.Other++
	}
}

// Totals returns the documents noted so far.
func (l *Ledger) Totals() Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// Reconciliation is what a comparison found, over all customers.
type Reconciliation struct {
	Counted int // documents in Redis
	Missing int // answered, and not in Redis
	Extra   int // in Redis, though neither answered nor of unknown outcome
	Twice   int // answered with a count that another document was answered with
}

// Exact reports whether nothing is missing, extra or answered twice.
func (r Reconciliation) Exact() bool {
	return r.Missing == 0 && r.Extra == 0 && r.Twice == 0
}

// Reconcile compares the ledger with the customers' keys in Redis.
func (l *Ledger) Reconcile(tb testing.TB, client redis.Cmdable, keys func(customer string) priority.Keys) (r Reconciliation) {
	tb.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for customer, a := range l.customers {
		keys := keys(customer)
		count, err := client.Get(context.Background(), keys.Count).Int()
		counted := 1 - count
		if errors.Is(err, redis.Nil) {
			counted = len(Pending(tb, client, keys.Pending))
		} else if err != nil {
			tb.Fatal(err)
		}
		r.Counted += counted
		r.Missing += max(0, a.answered-counted)
		r.Extra += max(0, counted-a.answered-a.unknown)
		r.Twice += a.twice
	}
	return r
}

// Pending returns the ids of the documents that a customer's key says are pending.
func Pending(tb testing.TB, client redis.Cmdable, key string) (ids []string) {
	tb.Helper()
	members, err := client.ZRange(context.Background(), key, 0, -1).Result()
	if err != nil {
		tb.Fatal(err)
	}
	for _, member := range members {
		if _, id, ok := keys.Document("", member); ok {
			ids = append(ids, id)
		}
	}
	return ids
}
