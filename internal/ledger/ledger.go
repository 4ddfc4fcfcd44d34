// Package ledger notes what the callers of a Store were told and compares it
// with what the store holds in the end: nothing counted twice, nothing missing.
package ledger

import (
	"errors"
	"fmt"
	"sync"

	"github.com/docpriority/priority"
)

// Totals are documents by what their callers were told.
type Totals struct {
	Documents      int
	Answered       int // a decision of the fleet's count
	Degraded       int // a decision of a fallback
	NotCounted     int
	OutcomeUnknown int
	Other          int // any other error
}

// String gives the totals in one line.
func (t Totals) String() string {
	return fmt.Sprintf("%d documents: %d answered, %d degraded, %d not counted, %d of unknown outcome, %d failed otherwise",
		t.Documents, t.Answered, t.Degraded, t.NotCounted, t.OutcomeUnknown, t.Other)
}

// Ledger is safe for concurrent use. Its customers may not be reset while it is
// kept. Its size depends on the customers and on the documents that failed, not
// on those that were answered. The zero value is ready to use.
type Ledger struct {
	mu        sync.Mutex
	totals    Totals
	customers map[string]*account
}

type account struct {
	told                    counts
	answered, unknown, owed int
}

// Note notes the outcome of one document.
func (l *Ledger) Note(customer string, decision priority.Decision, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.customers == nil {
		l.customers = make(map[string]*account)
	}
	a := l.customers[customer]
	if a == nil {
		a = &account{}
		l.customers[customer] = a
	}
	l.totals.Documents++
	switch {
	case err == nil && decision.Degraded:
		l.totals.Degraded++
		a.owed++
	case err == nil:
		l.totals.Answered++
		a.answered++
		a.told.add(decision.Count)
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
	var batch *priority.BatchError
	for i, customer := range customers {
		switch {
		case err == nil:
			l.Note(customer, decisions[i], nil)
		case !errors.As(err, &batch):
			l.Note(customer, priority.Decision{}, err)
		case batch.Errs[i] != nil:
			l.Note(customer, priority.Decision{}, batch.Errs[i])
		default:
			l.Note(customer, decisions[i], nil)
		}
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
	Extra   int // in the counts, though neither answered, owed nor of unknown outcome
	Twice   int // answered with a count that another document was answered with
}

// Exact reports that nothing is missing, extra or told twice.
func (r Reconciliation) Exact() bool {
	return r.Missing == 0 && r.Extra == 0 && r.Twice == 0
}

// String gives the reconciliation in one line.
func (r Reconciliation) String() string {
	return fmt.Sprintf("%d documents counted; %d missing, %d extra, %d counts told twice", r.Counted, r.Missing, r.Extra, r.Twice)
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
		r.Extra += max(0, counted-a.answered-a.unknown-a.owed)
		r.Twice += a.told.repeated
	}
	return r
}
