package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/memory"
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
