// Package queue says what a level is called in your queue: pure functions from a
// level to the priority, the queue's name or the subject that the queue's own
// client takes. Each gets the direction right: some queues serve the largest number
// first, others the smallest. A [Picker] chooses the level that a consumer serves
// next, where the queue cannot.
//
// Pass a decision's level and the store's last one, store.Last():
//
//	queue.RabbitMQ(decision.Level, store.Last(), maxPriority)
//
// Never pass the last level of a tier, or of one customer's policy: the levels of
// all customers stand in one queue and are compared there. A customer whose tier
// has three levels stays ahead of everybody's level 4.
//
// None of the functions fails: a level outside of 1 to last counts as the nearest
// one inside, and a last level below 1 as 1. Level 1 always gets what the queue
// serves first.
//
// Each function's comment tells whether the last level starves in that queue.
// For RabbitMQ, River and others there is a module that does all of it in a worker that you
// have, Submit and Done included: see docs/queues.md, which has the lines to paste, the
// prefetch to set and what becomes of retries.
package queue
