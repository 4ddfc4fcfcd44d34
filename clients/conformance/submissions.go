package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/fair"
	"github.com/redis/go-redis/v9"
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
		pending := make(map[string]bool)
		for _, id := range s.pending(w, customer) {
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
		fades, err := s.client.ZScore(ctx, keys(customer)[1], ":fades").Result()
		if err != nil && !errors.Is(err, redis.Nil) {
			w.Fatal(err)
		}
		recent := float64(fair.History{Fades: time.UnixMilli(int64(fades))}.Recent(time.Now())) / 1000 // some may have faded
		if recent > float64(counted+unknown)+0.4 || recent < 0.99*float64(min(counted, 512))-1 {
			w.Errorf("of %q %v documents were submitted recently; %d are answered, and %d of unknown outcome", customer, recent, counted, unknown)
		}
	}
}
