package queue

import "github.com/docpriority/priority"

const riverPriorities = 4

// River returns the Priority of river.InsertOpts, from 1 to 4 by [Class]: with
// nine levels 1–3 are 1, 4 is 2, 5 is 3, and 6–9 are 4. River serves the
// smallest number first.
//
// The last level starves: within a queue, a job waits as long as there is a job
// with a smaller number.
func River(level, last priority.Level) int {
	return int(Class(level, last, riverPriorities))
}
