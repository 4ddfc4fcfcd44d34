package ledger

import (
	"fmt"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/observe"
)

const customer = "acme"

func TestReconcile(t *testing.T) {
	refused := fmt.Errorf("%w: it was refused", priority.ErrNotCounted)
	lost := fmt.Errorf("%w: no answer came", priority.ErrOutcomeUnknown)
	tests := []struct {
		name  string
		note  func(l *Ledger)
		count int64
		held  bool
		want  Reconciliation
	}{
		{"nothing noted", func(*Ledger) {}, -5, true, Reconciliation{}},
		{"all counted", func(l *Ledger) { answer(l, 0, -1, -2) }, -2, true, Reconciliation{Counted: 3}},
		{"any order", func(l *Ledger) { answer(l, -1, -2, 0) }, -2, true, Reconciliation{Counted: 3}},
		{"two missing", func(l *Ledger) { answer(l, 0, -1, -2) }, 0, true, Reconciliation{Counted: 1, Missing: 2}},
		{"no count", func(l *Ledger) { answer(l, 0, -1) }, 0, false, Reconciliation{Missing: 2}},
		{"one extra", func(l *Ledger) { answer(l, 0, -1) }, -2, true, Reconciliation{Counted: 3, Extra: 1}},
		{"told twice", func(l *Ledger) { answer(l, 0, -1, -1, -1) }, -3, true, Reconciliation{Counted: 4, Twice: 2}},
		{"refused and not counted", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{}, refused)
		}, 0, true, Reconciliation{Counted: 1}},
		{"refused and counted", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{}, refused)
		}, -1, true, Reconciliation{Counted: 2, Extra: 1}},
		{"unknown and not counted", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{}, lost)
		}, 0, true, Reconciliation{Counted: 1}},
		{"unknown and counted", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{}, lost)
		}, -1, true, Reconciliation{Counted: 2}},
		{"unknown and counted twice", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{}, lost)
		}, -2, true, Reconciliation{Counted: 3, Extra: 1}},
		{"degraded and not in the fleet's count", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{Degraded: true, Count: 0}, nil)
			answer(l, -1)
		}, -1, true, Reconciliation{Counted: 2}},
		{"degraded and in the fleet's count", func(l *Ledger) {
			answer(l, 0)
			l.Note(customer, priority.Decision{Degraded: true, Count: 0}, nil)
			answer(l, -2)
		}, -2, true, Reconciliation{Counted: 3, Extra: 1}},
		{"degraded, the primary's outcome being unknown", func(l *Ledger) {
			answer(l, 0)
			l.Primary(t.Context(), observe.Call{Operation: "Next", Customers: []string{customer}, Items: 1, Err: lost})
			l.Note(customer, priority.Decision{Degraded: true, Count: 0}, nil)
			answer(l, -2)
		}, -2, true, Reconciliation{Counted: 3}},
		{"degraded, the primary having refused", func(l *Ledger) {
			answer(l, 0)
			l.Primary(t.Context(), observe.Call{Operation: "Next", Customers: []string{customer}, Items: 1, Err: refused})
			l.Note(customer, priority.Decision{Degraded: true, Count: 0}, nil)
		}, -1, true, Reconciliation{Counted: 2, Extra: 1}},
		{"a Done of unknown outcome", func(l *Ledger) {
			answer(l, 0)
			l.Primary(t.Context(), observe.Call{Operation: "Done", Customers: []string{customer}, Items: 1, Err: lost})
		}, -1, true, Reconciliation{Counted: 2, Extra: 1}},
		{"unknown, told by the primary and by the fallback", func(l *Ledger) {
			l.Primary(t.Context(), observe.Call{Operation: "NextN", Customers: []string{customer}, Items: 2, Err: lost})
			l.NoteN(customer, 2, nil, lost)
		}, -2, true, Reconciliation{Counted: 3, Extra: 1}},
		{"unknown to the primary for some", func(l *Ledger) {
			l.Primary(t.Context(), observe.Call{
				Operation: "NextEach", Customers: []string{"umbrella", customer}, Items: 2,
				Err: &priority.BatchError{Errs: []error{lost, nil}},
			})
			answer(l, 0)
		}, -1, true, Reconciliation{Counted: 4, Extra: 2}}, // both hold as much
		{"many at once", func(l *Ledger) {
			l.NoteN(customer, 2, []priority.Decision{{Count: 0}, {Count: -1}}, nil)
			l.NoteN(customer, 3, nil, lost)
			l.NoteN(customer, 4, nil, refused)
		}, -4, true, Reconciliation{Counted: 5}},
		{"one of each", func(l *Ledger) {
			l.NoteEach([]string{customer, customer}, []priority.Decision{{Count: 0}, {Count: -1}}, nil)
			l.NoteEach([]string{customer, customer}, []priority.Decision{{}, {Count: -2}},
				&priority.BatchError{Errs: []error{refused, nil}})
			l.NoteEach([]string{customer, customer}, nil, priority.ErrInvalidCustomer)
		}, -3, true, Reconciliation{Counted: 4, Extra: 1}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var l Ledger
			test.note(&l)
			got := l.Reconcile(func(string) (int64, bool) { return test.count, test.held })
			if got != test.want {
				t.Fatalf("found %+v, want %+v", got, test.want)
			}
			if exact := got.Missing+got.Extra+got.Twice == 0; got.Exact() != exact {
				t.Fatalf("Exact is %t of %+v", got.Exact(), got)
			}
		})
	}
}

func TestTotals(t *testing.T) {
	var l Ledger
	answer(&l, 0, -1)
	l.Note(customer, priority.Decision{Degraded: true}, nil)
	l.Note("umbrella", priority.Decision{}, priority.ErrNotCounted)
	l.NoteN(customer, 3, nil, priority.ErrOutcomeUnknown)
	l.NoteEach([]string{customer, "umbrella"}, make([]priority.Decision, 2), priority.ErrInvalidCustomer)
	want := Totals{Documents: 9, Answered: 2, Degraded: 1, NotCounted: 1, OutcomeUnknown: 3, Other: 2}
	if got := l.Totals(); got != want {
		t.Fatalf("the totals are %+v, want %+v", got, want)
	}
}

// answer notes documents that were answered with these counts.
func answer(l *Ledger, counts ...int64) {
	for _, count := range counts {
		l.Note(customer, priority.Decision{Count: count}, nil)
	}
}
