// Package ledger records the answers that a Store's callers got, and compares them
// with the store's counts in the end: nothing counted twice, nothing missing.
package ledger

import (
	"errors"
	"fmt"
	"sync"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
)

// Totals are documents by the answers that callers got.
type Totals struct {
	Documents      int
	Answered       int // a decision of the fleet's count
	Degraded       int // a decision of a fallback, which the fleet's count never learns of
	NotCounted     int
	OutcomeUnknown int
	Other          int // any other error
}

// String gives the totals in one line.
func (t Totals) String() string {
	return fmt.Sprintf("%d documents: %d answered, %d degraded, %d not counted, %d of unknown outcome, %d failed otherwise",
		t.Documents, t.Answered, t.Degraded, t.NotCounted, t.OutcomeUnknown, t.Other)
}

// Ledger is safe for concurrent use. Its customers must not be reset while it is
// in use. The zero value is ready to use.
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

// of returns a customer's account. The caller holds the lock.
func (l *Ledger) of(customer string) *account {
	a := l.customers[customer]
	if a == nil {
		if l.customers == nil {
			l.customers = make(map[string]*account)
		}
		a = &account{counts: make(map[int64]bool)}
		l.customers[customer] = a
	}
	return a
}

// Note notes the outcome of one document.
func (l *Ledger) Note(customer string, decision priority.Decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.of(customer)
	l.totals.Documents++
	switch {
	case err == nil && decision.Degraded:
		l.totals.Degraded++
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

// NoteN notes the outcome of a NextN of n documents.
func (l *Ledger) NoteN(customer string, n int, decisions []priority.Decision, err error) {
	for i := range n {
		var decision priority.Decision
		if err == nil {
			decision = decisions[i]
		}
		l.Note(customer, decision, err)
	}
}

// NoteEach notes the outcome of a NextEach.
func (l *Ledger) NoteEach(customers []string, decisions []priority.Decision, err error) {
	for i, err := range itemerrors.Of(err, len(customers)) {
		var decision priority.Decision
		if err == nil {
			decision = decisions[i]
		}
		l.Note(customers[i], decision, err)
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
	Counted int // documents in the store's counts
	Missing int // answered, and not in the counts
	Extra   int // in the counts, though neither answered nor of unknown outcome
	Twice   int // answered with a count that another document was answered with
}

// Exact reports whether nothing is missing, extra or answered twice.
func (r Reconciliation) Exact() bool {
	return r.Missing == 0 && r.Extra == 0 && r.Twice == 0
}

// String gives the reconciliation in one line.
func (r Reconciliation) String() string {
	return fmt.Sprintf("%d documents counted; %d missing, %d extra, %d counts answered twice", r.Counted, r.Missing, r.Extra, r.Twice)
}

// Reconcile compares the ledger with the customers' counts in the end; held
// returns false where a customer has none.
func (l *Ledger) Reconcile(count func(customer string) (count int64, held bool)) Reconciliation {
	l.mu.Lock()
	defer l.mu.Unlock()
	var r Reconciliation
	for customer, a := range l.customers {
		counted := 0
		if count, held := count(customer); held {
			counted = int(1 - count)
		}
		r.Counted += counted
		r.Missing += max(0, a.answered-counted)
		r.Extra += max(0, counted-a.answered-a.unknown)
		r.Twice += a.twice
	}
	return r
}
