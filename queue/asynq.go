package queue

import "github.com/docpriority/priority"

// AsynqQueues returns the Queues of an asynq.Config with StrictPriority: a queue for each
// level, named by [Name], from last for level 1 down to 1 for the last level. A task is
// enqueued with asynq.Queue(Name(prefix, level, last)).
//
// Without StrictPriority, asynq uses the numbers as weights, and a flood keeps most of the
// workers. Steeper weights do not help: for every task, asynq shuffles a list as long as
// their sum.
func AsynqQueues(prefix string, last priority.Level) map[string]int {
	queues := make(map[string]int, max(last, 0))
	for level := priority.First; level <= last; level++ {
		queues[Name(prefix, level, last)] = int(last - level + 1)
	}
	return queues
}
