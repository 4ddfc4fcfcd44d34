// Package queue says what a level is called in your queue: pure functions from a
// level to the priority, the queue's name or the subject that the queue's own
// client takes. Each gets the direction right, for some queues serve the highest
// number first and others the lowest.
//
// All take the level and the policy's lowest, [priority.Policy.Lowest]. None fails:
// a level outside of 1 to lowest counts as the nearest one inside, and a lowest
// below 1 as 1. Level 1 always gets what the queue serves first.
//
// Two things are the queue's own affair, and each function's comment tells them:
// whether documents of the lowest level are ever served while others wait, and how
// many documents a consumer may hold back unprocessed (prefetch). What a consumer
// has fetched is out of the queue, and no priority reaches it any more.
//
// docs/queues.md has the lines to paste for each queue, and examples/queues has
// complete programs.
package queue
