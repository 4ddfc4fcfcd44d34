package fallback_test

import (
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// BenchmarkNext tells what a decision costs while the server answers, and while it
// is gone and the circuit open.
func BenchmarkNext(b *testing.B) {
	for name, gone := range map[string]bool{"the server answers": false, "the circuit is open": true} {
		b.Run(name, func(b *testing.B) {
			server := redistest.Start(b)
			primary, err := priority.NewRedisStore(server.Client(), nil)
			if err != nil {
				b.Fatal(err)
			}
			store := open(b, primary, nil)
			if gone {
				server.Kill()
				for !store.Open() {
					_, _ = store.Next(b.Context(), "acme")
				}
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
