// Package queue translates a level for your queue: pure functions return the priority
// or queue name that the queue's client takes. Each gets the direction right: some
// queues serve the largest number first, others the smallest. A [Picker] chooses the level
// that a consumer serves next, if the queue cannot.
//
// Pass a decision's level and the store's last one, store.Last():
//
//	queue.RabbitMQ(decision.Level, store.Last(), maxPriority)
//
// Never pass the last level of a tier, or of one customer's policy: all customers'
// documents are compared in one queue. A customer whose tier has three levels stays ahead
// of everyone's level 4.
//
// No function fails: a level below 1 counts as 1, a level beyond the last as the last, and
// a last level below 1 as 1. Level 1 always gets what the queue serves first.
//
// Each function's comment says whether the last level starves in that queue. For RabbitMQ,
// River and others, a module does all of this in your existing worker, Submit and Done
// included: docs/queues.md has the lines to paste, the prefetch to set and what happens to
// retries.
package queue
