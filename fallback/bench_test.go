package fallback_test

import (
	"testing"

	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

// BenchmarkNext tells what a decision costs while the circuit is open.
func BenchmarkNext(b *testing.B) {
	primary, opened := prioritytest.NewFailingStore(new(memory.Store)), make(chan bool)
	store := must(fallback.New(primary, &fallback.Options{MaxFailures: 1, OnChange: func(bool, error) { close(opened) }}))(b)
	primary.Fail(prioritytest.Fault{})
	must(store.Next(b.Context(), "acme"))(b)
	<-opened
	b.ReportAllocs()
	for b.Loop() {
		if decision, err := store.Next(b.Context(), "acme"); err != nil || !decision.Degraded {
			b.Fatal(decision, err)
		}
	}
}
