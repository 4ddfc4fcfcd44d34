package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
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
