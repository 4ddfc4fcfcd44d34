package ledger

import (
	"testing"

	"github.com/docpriority/priority"
)

func TestReconcile(t *testing.T) {
	for name, test := range map[string]struct {
		counts []int64 // that documents were answered with
		err    error   // of one document more
		held   int64   // 1: nothing
		want   Reconciliation
	}{
		"all counted":             {[]int64{-1, 0, -2}, nil, -2, Reconciliation{Counted: 3}},
		"two missing":             {[]int64{0, -1, -2}, nil, 0, Reconciliation{Counted: 1, Missing: 2}},
		"no count":                {[]int64{0, -1}, nil, 1, Reconciliation{Missing: 2}},
		"one extra":               {[]int64{0, -1}, nil, -2, Reconciliation{Counted: 3, Extra: 1}},
		"told twice":              {[]int64{0, -1, -1, -1}, nil, -3, Reconciliation{Counted: 4, Twice: 2}},
		"refused, not counted":    {[]int64{0}, priority.ErrNotCounted, 0, Reconciliation{Counted: 1}},
		"refused and counted":     {[]int64{0}, priority.ErrNotCounted, -1, Reconciliation{Counted: 2, Extra: 1}},
		"unknown, not counted":    {[]int64{0}, priority.ErrOutcomeUnknown, 0, Reconciliation{Counted: 1}},
		"unknown and counted":     {[]int64{0}, priority.ErrOutcomeUnknown, -1, Reconciliation{Counted: 2}},
		"unknown, counted twice":  {[]int64{0}, priority.ErrOutcomeUnknown, -2, Reconciliation{Counted: 3, Extra: 1}},
		"another error, and more": {[]int64{0}, priority.ErrInvalid, -1, Reconciliation{Counted: 2, Extra: 1}},
	} {
		var l Ledger
		for _, count := range test.counts {
			l.Note("acme", priority.Decision{Count: count}, nil)
		}
		l.Note("acme", priority.Decision{Degraded: true}, nil) // which is not the fleet's
		if test.err != nil {
			l.NoteN("acme", 1, nil, test.err)
		}
		if got := l.Reconcile(func(string) (int64, bool) { return test.held, test.held < 1 }); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}
