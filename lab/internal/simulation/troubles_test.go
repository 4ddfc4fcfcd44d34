package simulation

import (
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
)

// What is counted in an outage is lost, but no Done. What was written in the last moments before a
// failover is lost, Dones too.
func TestTroubles(t *testing.T) {
	for name, test := range map[string]struct {
		work Workload
		want []int64 // pending at the last document before, within, and after it
	}{
		"outage":   {Workload{Outage: Span{10, 20}}, []int64{5, 3, 2}},
		"failover": {Workload{Failover: Span{10, 20}}, []int64{5, 8, 6}},
	} {
		clock := new(clock)
		store, err := newTroubled(&test.work, memory.Options{Now: clock.Now}, clock)
		if err != nil {
			t.Fatal(err)
		}
		var pending []int64
		submit := func(first, documents int) {
			var decision priority.Decision
			for i := range documents {
				if decision, err = store.Submit(t.Context(), "a", priority.Document{ID: strconv.Itoa(first + i)}); err != nil {
					t.Fatal(err)
				}
			}
			pending = append(pending, decision.Pending)
		}
		submit(0, 5)
		clock.now = 10
		submit(10, 3)
		for i := range 4 {
			if _, err := store.Done(t.Context(), "a", strconv.Itoa(i), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		clock.now = 20
		submit(20, 1)
		if !slices.Equal(pending, test.want) {
			t.Errorf("%s: %d documents were pending, want %d", name, pending, test.want)
		}
	}
}
