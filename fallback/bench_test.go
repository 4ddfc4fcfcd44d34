package fallback_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// BenchmarkNext tells what a decision costs while the server answers, and while it
// is gone and the circuit open.
func BenchmarkNext(b *testing.B) {
	for name, gone := range map[string]bool{"the server answers": false, "the circuit is open": true} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Start(b)
			store := benchmarked(b, server)
			if gone {
				server.Kill()
				openCircuit(b, store)
			}
			b.ReportAllocs()
			for b.Loop() {
				if decision, err := store.Next(b.Context(), "acme"); err != nil || decision.Degraded != gone {
					b.Fatal(decision, err)
				}
			}
		})
	}
}

func benchmarked(b *testing.B, server *redistest.Server) *fallback.Store {
	b.Helper()
	primary, err := priority.NewRedisStore(server.Client(), nil)
	if err != nil {
		b.Fatal(err)
	}
	store, err := fallback.New(primary, nil)
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func openCircuit(b *testing.B, store *fallback.Store) {
	b.Helper()
	for !store.Open() {
		next(b, store)
	}
}

func next(b *testing.B, store *fallback.Store) priority.Decision {
	b.Helper()
	decision, err := store.Next(b.Context(), "acme")
	if err != nil {
		b.Fatal(err)
	}
	return decision
}
