// Package priority decides with which priority a customer's document is to be
// processed, from how much that customer has sent lately. The counts live in
// Redis, so that all workers of a fleet decide alike.
//
// # The rule
//
// Each customer has a count. For each document: if there is no count, or more
// than the reset interval (1500 s) has passed since the customer's last
// document, the count is 0; otherwise it goes down by one. The count is then
// looked up in the thresholds:
//
//	count  >= -2  < -2  < -4  < -6  < -8  < -10  < -12  < -14  < -20
//	level      1     2     3     4     5      6      7      8      9
//
// So a new customer's first three documents have level 1, which is processed
// first; two each have 2, 3, 4, 5, 6 and 7; six have 8; and all from the 22nd
// have 9. The count goes down as load goes up. A [Policy] has other thresholds,
// another interval, or lets the interval run since the last reset.
//
// # Use
//
// Make one [RedisStore] for the process with [NewRedisStore], on a go-redis
// client of any kind. Call Next when a document arrives and put the document
// into the queue with the level it returns:
//
//	decision, err := store.Next(ctx, customer)
//
// NextN counts many documents of one customer, and NextEach one document of
// each of many, in one round trip. Peek tells why a customer waits.
//
// # More than the rule
//
// A [Tracker] also counts what of a customer's documents is pending now, which
// protects customers who send all day. A [Fallback] answers while Redis cannot be
// reached, and a [Coalescer] answers for customers at the lowest level from memory:
// both are a [Store] around a Store. A [Picker] tells a consumer of one queue a
// level which to serve next; the package queue, what a level is called in a queue
// that has priorities of its own; the package prioritytest has what tests need.
//
// # Errors
//
// No call waits longer than [RedisOptions.Timeout], and none counts a document
// twice. An error tells what became of the document: see [Store].
package priority
