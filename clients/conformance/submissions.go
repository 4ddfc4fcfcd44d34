package main

import (
	"context"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

// submissions are documents, by their ids, with what callers were told of them. The zero
// value is ready to use.
type submissions struct {
	mu   sync.Mutex
	byID map[string]*submission
}

// submission is a document's customer, and the classes of its submit and of its done; ""
// is nothing.
type submission struct{ customer, submit, done string }

// note notes what a submit of one document came to.
func (s *submissions) note(customer, id string, r response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*submission)
	}
	s.byID[id] = &submission{customer: customer, submit: r.class()}
}

// auditSubmissions compares what callers were told of documents with what is pending, and
// with how many are remembered: each is counted once, however often it was sent.
func (w *world) auditSubmissions(s *site, books *submissions) {
	w.Helper()
	type total struct{ answered, unknown int64 }
	totals, held := make(map[string]*total), make(map[string]bool)
	for _, d := range books.byID {
		if totals[d.customer] == nil {
			totals[d.customer] = new(total)
		}
		switch d.submit {
		case answered:
			totals[d.customer].answered++
		case outcomeUnknown:
			totals[d.customer].unknown++
		}
	}
	for customer, total := range totals {
		ids, err := s.client.ZRange(context.Background(), keys(customer)[1], 0, -1).Result()
		if err != nil {
			w.Fatal(err)
		}
		for _, id := range ids {
			held[id] = true
			if d := books.byID[id]; d == nil || d.customer != customer {
				w.Errorf("%q is pending of %q, who did not submit it", id, customer)
			}
		}
		// Some may fade meanwhile.
		lately, most := s.lately(w, customer), total.answered+total.unknown
		if least := min(total.answered, 512); lately > float64(most)+0.4 || lately < 0.99*float64(least)-1 {
			w.Errorf("of %q %v documents were submitted lately; %d are answered, and %d of unknown outcome", customer, lately, total.answered, total.unknown)
		}
	}
	for id, d := range books.byID {
		switch {
		case d.submit == notCounted && held[id]:
			w.Errorf("%q was not counted, and is pending", id)
		case d.submit == answered && (d.done == "" || d.done == notCounted) && !held[id]:
			w.Errorf("%q was submitted and is not done (%s), but is not pending", id, d.done)
		case d.done == answered && held[id]:
			w.Errorf("%q is done, and pending", id)
		}
	}
}

// lately returns how many documents of a customer are remembered.
func (s *site) lately(w *world, customer string) float64 {
	w.Helper()
	left, err := s.client.PTTL(context.Background(), keys(customer)[2]).Result()
	if err != nil {
		w.Fatal(err)
	}
	now := time.Now()
	return float64(fair.History{Fades: now.Add(max(left, 0))}.Lately(now)) / 1000
}
