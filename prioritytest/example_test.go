package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
	"github.com/docpriority/priority/prioritytest"
)

// A customer starts afresh after a pause, without a wait in the test.
func ExampleNewStore() {
	ctx := context.Background()
	clock := new(prioritytest.Clock)
	store := prioritytest.NewStore(clock, nil)

	_, _ = store.NextN(ctx, "acme", 30)
	busy, _ := store.Next(ctx, "acme")
	clock.Advance(busy.ResetIn) // exactly the interval is not more than the interval
	still, _ := store.Next(ctx, "acme")
	clock.Advance(still.ResetIn + time.Millisecond)
	afresh, _ := store.Next(ctx, "acme")

	fmt.Println(busy.Level, busy.Count, busy.ResetIn)
	fmt.Println(still.Level, still.Count)
	fmt.Println(afresh.Level, afresh.Count)
	// Output:
	// 9 -30 25m0s
	// 9 -31
	// 1 0
}

// An upload that goes on with a default level when Redis does not answer.
func ExampleFailingStore() {
	ctx := context.Background()
	store := prioritytest.NewFailingStore(new(memory.Store))

	// The next call arrives, and its answer is lost.
	store.Fail(prioritytest.Fault{
		Class: priority.ErrOutcomeUnknown, Cause: context.DeadlineExceeded, Counted: true, Calls: 1,
	})
	_, err := store.Next(ctx, "acme")
	fmt.Println(err)
	fmt.Println(errors.Is(err, priority.ErrOutcomeUnknown), errors.Is(err, context.DeadlineExceeded))

	decision, err := store.Next(ctx, "acme")
	fmt.Println(decision.Count, err)
	// Output:
	// priority: outcome unknown: Next "acme": context deadline exceeded
	// true true
	// -1 <nil>
}

// One of three customers cannot be reached; the others are counted.
func ExampleFailingStore_NextEach() {
	store := prioritytest.NewFailingStore(new(memory.Store))
	store.Fail(prioritytest.Fault{Customer: "bakery"})

	decisions, err := store.NextEach(context.Background(), []string{"acme", "bakery", "acme"})
	var batch *priority.BatchError
	if errors.As(err, &batch) {
		for i, err := range batch.Errs {
			fmt.Println(decisions[i].Level, decisions[i].Count, err)
		}
	}
	// Output:
	// 1 0 <nil>
	// 0 0 priority: not counted: NextEach "bakery": prioritytest: told to fail
	// 1 -1 <nil>
}

// What a program asked its store, and what it was told.
func ExampleRecorder() {
	ctx := context.Background()
	recorder := new(prioritytest.Recorder)
	store, err := observe.New(new(memory.Store), recorder.Observe)
	if err != nil {
		log.Fatal(err)
	}

	_, _ = store.Next(ctx, "acme")
	_, _ = store.NextN(ctx, "acme", 3)
	_, _ = store.Next(ctx, "")

	for _, call := range recorder.Calls() {
		fmt.Printf("%s %q %d %d %s\n", call.Operation, call.Customers, call.Items, len(call.Decisions), observe.Outcome(call.Err))
	}
	// Output:
	// Next ["acme"] 1 1 ok
	// NextN ["acme"] 3 3 ok
	// Next [""] 1 0 invalid
}

// A fallback around a store that fails shows what a program does in an outage.
func ExampleFailingStore_Fail() {
	ctx := context.Background()
	primary := prioritytest.NewFailingStore(new(memory.Store))
	store, err := fallback.New(primary, nil)
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)

	primary.Fail(prioritytest.Fault{})
	decision, err := store.Next(ctx, "acme")
	fmt.Println(decision.Count, decision.Degraded, err)

	primary.Heal()
	decision, err = store.Next(ctx, "acme")
	fmt.Println(decision.Count, decision.Degraded, err)
	// Output:
	// 0 true <nil>
	// 0 false <nil>
}
