package observe_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// An observer is told of each call: to count levels and errors, or to log.
func Example() {
	store, err := observe.New(new(memory.Store), func(_ context.Context, call observe.Call) {
		fmt.Println(call.Operation, observe.Outcome(call.Err))
		for _, decision := range call.Decisions {
			fmt.Println("  level", decision.Level)
		}
		for _, ended := range call.Ended { // and ended.Latency is how long it was there
			fmt.Println("  had level", ended.Level, "and took", call.Took)
		}
	})
	if err != nil {
		log.Fatal(err)
	}

	ctx := context.Background()
	if _, err := store.SubmitN(ctx, "acme", []priority.Document{{ID: "invoice-1"}, {ID: "invoice-2"}, {ID: "invoice-3"}}); err != nil {
		log.Fatal(err)
	}
	if _, err := store.Done(ctx, "acme", "invoice-1", 2*time.Second); err != nil {
		log.Print(err)
	}
	_, err = store.Submit(ctx, "", priority.Document{ID: "invoice-4"}) // a customer has a name
	fmt.Println(err)
	// Output:
	// SubmitN ok
	//   level 1
	//   level 1
	//   level 2
	// Done ok
	//   had level 1 and took 2s
	// Submit invalid
	// priority: invalid customer: "" has 0 bytes, not 1 to 512
}
