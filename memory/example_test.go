package memory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/docpriority/priority/memory"
)

// A Store needs no server, and its clock can be moved: code that takes a
// priority.Store is tested with it.
func Example() {
	now := time.Now()
	store, err := memory.New(&memory.Options{Now: func() time.Time { return now }})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	if _, err := store.NextN(ctx, "acme", 30); err != nil {
		log.Fatal(err)
	}
	for _, pause := range []time.Duration{time.Minute, 25 * time.Minute, 25*time.Minute + time.Millisecond} {
		now = now.Add(pause)
		decision, err := store.Next(ctx, "acme")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("after %v: level %d, count %d\n", pause, decision.Level, decision.Count)
	}
	// Output:
	// after 1m0s: level 9, count -30
	// after 25m0s: level 9, count -31
	// after 25m0.001s: level 1, count 0
}
