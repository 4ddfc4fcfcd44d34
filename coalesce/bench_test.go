package coalesce_test

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority/coalesce"
	"github.com/docpriority/priority/memory"
)

// BenchmarkNextFromMemory tells what an answer from memory costs 128 callers a CPU.
// What it saves beside Redis is a table of the module bench.
func BenchmarkNextFromMemory(b *testing.B) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = "customer" + strconv.Itoa(i)
	}
	store, err := coalesce.New(new(memory.Store), &coalesce.Options{Interval: 400 * time.Second})
	if err != nil {
		b.Fatal(err)
	}
	for _, customer := range names {
		if _, err := store.NextN(b.Context(), customer, 30); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(names)); pb.Next(); i++ {
			if decision, err := store.Next(b.Context(), names[i%len(names)]); err != nil || !decision.Estimated {
				b.Error(decision, err)
				return
			}
		}
	})
}
