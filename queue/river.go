package queue

import "github.com/docpriority/priority"

const riverPriorities = 4

// River returns the Priority of river.InsertOpts, from 1 to 4 by [Class]: with
// nine levels 1–3 are 1, 4–6 are 2, 7 and 8 are 3, and 9 is 4. River serves the
// lowest number first.
//
// The lowest level starves: within a queue, a job waits for as long as there is one
// with a lower number.
//
// Prefetch: none. River fetches as many jobs as of its MaxWorkers are free.
//
// Retries: a failed job keeps its priority, and comes back after its RetryPolicy's
// delay, behind those of its priority that were due before.
func River(level, lowest priority.Level) int {
	return int(Class(level, lowest, riverPriorities))
}
