// Package laws tests that every store keeps the laws of a Store:
//
//  1. At most once. One call counts its documents 0 times or once. No error: exactly once,
//     by the store that answered. ErrNotCounted: never. Without faults, the end of a document
//     is reported by exactly one Done.
//  2. In time. No call takes longer than its timeout or its context, whatever hangs.
//  3. Bounded. Goroutines have a bound, however many callers come; none is left behind.
//  4. Levels err to the better side. After an outage a level may be better than the full
//     history would give, never worse for longer than one lease.
//  5. What others did stands. Nothing undoes a count or a Reset of another process.
//  6. One customer's trouble is theirs. It changes nothing for others.
//  7. The policy passes through. PolicyOf and Last of a wrapper are the innermost store's.
//  8. A document counts from when it is due, and its latency begins then. It counts those that
//     are due before it, and those that are due as long after it as its delay, a lease at most.
//
// The subjects are RedisStore, memory.Store, and the stack of fleet.Join. Random sequences
// without faults are compared, number by number, with a memory.Store that gets the same
// calls. Random sequences with faults fit what may be counted and pending then. A few
// checks are for crowds. Each runs in a bubble of testing/synctest, where time is exact and
// costs nothing.
//
//	go test ./internal/testing/laws                # other sequences each time
//	go test ./internal/testing/laws -short         # fewer
//	go test ./internal/testing/laws -laws.n 5000   # more
//	go test ./internal/testing/laws -laws.seed 42  # one that failed, again
package laws
