package main

import (
	"context"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

// submissions are documents with what the callers of their submits were told. The zero
// value is ready to use.
type submissions struct {
	mu   sync.Mutex
	told map[string]map[string]string // the class, by customer and id
}

func (s *submissions) note(customer, id string, r response) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told == nil {
		s.told = make(map[string]map[string]string)
	}
	if s.told[customer] == nil {
		s.told[customer] = make(map[string]string)
	}
	s.told[customer][id] = r.class()
}

// auditSubmissions compares what callers were told with what is pending, and with how many
// documents are remembered: each is counted once, however often it was sent.
func (w *world) auditSubmissions(s *site, books *submissions) {
	w.Helper()
	ctx := context.Background()
	for customer, told := range books.told {
		ids, err := s.client.ZRange(ctx, keys(customer)[1], 0, -1).Result()
		if err != nil {
			w.Fatal(err)
		}
		pending := make(map[string]bool)
		for _, id := range ids {
			pending[id] = true
			if told[id] == "" || told[id] == notCounted {
				w.Errorf("%q of %q is pending, and was not counted", id, customer)
			}
		}
		counted, unknown := 0, 0
		for id, class := range told {
			switch class {
			case answered:
				counted++
				if !pending[id] {
					w.Errorf("%q of %q was submitted, and is not pending", id, customer)
				}
			case outcomeUnknown:
				unknown++
			}
		}
		left, err := s.client.PTTL(ctx, keys(customer)[2]).Result()
		if err != nil {
			w.Fatal(err)
		}
		now := time.Now()
		lately := float64(fair.History{Fades: now.Add(max(left, 0))}.Lately(now)) / 1000 // some may have faded
		if lately > float64(counted+unknown)+0.4 || lately < 0.99*float64(min(counted, 512))-1 {
			w.Errorf("of %q %v documents were submitted lately; %d are answered, and %d of unknown outcome", customer, lately, counted, unknown)
		}
	}
}
