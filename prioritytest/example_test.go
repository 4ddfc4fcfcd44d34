package prioritytest_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
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

// A document that no worker finishes is forgotten when its lease is over.
func ExampleNewTracker() {
	ctx := context.Background()
	clock := new(prioritytest.Clock)
	tracker := prioritytest.NewTracker(clock, &priority.MemoryOptions{Lease: time.Minute})

	_, _ = tracker.Submit(ctx, "acme", "invoice-1")
	clock.Advance(time.Minute)
	held, _ := tracker.Peek(ctx, "acme")
	clock.Advance(time.Millisecond)
	forgotten, _ := tracker.Peek(ctx, "acme")

	fmt.Println(held.Pending, forgotten.Pending)
	// Output: 1 0
}

// An upload that goes on with a default level when Redis does not answer.
func ExampleFailingStore() {
	ctx := context.Background()
	memory := new(priority.MemoryStore)
	store := prioritytest.NewFailingStore(memory)

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
	store := prioritytest.NewFailingStore(new(priority.MemoryStore))
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

// The queue's redelivery submits a document again and counts nothing twice.
func ExampleFailingTracker() {
	ctx := context.Background()
	tracker := prioritytest.NewFailingTracker(new(priority.MemoryTracker))
	tracker.Fail(prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Counted: true, Calls: 1})

	_, err := tracker.Submit(ctx, "acme", "invoice-1")
	fmt.Println(errors.Is(err, priority.ErrOutcomeUnknown))
	decision, err := tracker.Submit(ctx, "acme", "invoice-1")
	fmt.Println(decision.Count, decision.Pending, err)
	// Output:
	// true
	// 0 1 <nil>
}

// What a program asked its store, and what it was told.
func ExampleRecorder() {
	ctx := context.Background()
	recorder := prioritytest.NewRecorder(new(priority.MemoryStore))

	_, _ = recorder.Next(ctx, "acme")
	_, _ = recorder.NextN(ctx, "acme", 3)
	_, _ = recorder.Next(ctx, "")

	for _, call := range recorder.Calls() {
		fmt.Println(call.Operation, call.Customers, call.N, len(call.Decisions), call.Err)
	}
	// Output:
	// Next [acme] 1 1 <nil>
	// NextN [acme] 3 3 <nil>
	// Next [] 1 0 priority: invalid customer: it is empty
}

// A Fallback around a store that fails shows what a program does in an outage.
func ExampleFailingStore_Fail() {
	ctx := context.Background()
	primary := prioritytest.NewFailingStore(new(priority.MemoryStore))
	store := priority.NewFallback(primary, nil, nil)

	primary.Fail(prioritytest.Fault{})
	decision, err := store.Next(ctx, "acme")
	fmt.Println(decision.Count, decision.Degraded, err)

	primary.Heal()
	decision, err = store.Next(ctx, "acme") // and the one that is owed
	fmt.Println(decision.Count, decision.Degraded, err)
	// Output:
	// 0 true <nil>
	// -1 false <nil>
}
