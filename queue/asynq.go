package queue

import "github.com/docpriority/priority"

// maxAsynqWeight bounds a queue's weight: asynq makes a list with as many entries
// as the weights' sum, and shuffles it, for every task that it takes.
const maxAsynqWeight = 256

// AsynqQueues returns the Queues of an asynq.Config: a queue for each level, named by
// [Name], with weights[0] for level 1. [LinearWeights] and [HalvingWeights] of
// store.Last() return such weights. Weights are scaled so that the largest is at most
// 256. asynq serves the queue with the largest weight first, or most often. A task is
// enqueued with asynq.Queue(Name(prefix, level, last)).
//
// The last level does not starve: while all queues have tasks, each is served at
// random, in proportion to its weight. With StrictPriority it does starve; the
// weights must then differ, as LinearWeights do up to 256 levels.
func AsynqQueues(prefix string, weights []int64) map[string]int {
	weigh := func(weight int64) int64 { return max(1, min(weight, 1<<32)) }
	largest := int64(maxAsynqWeight)
	for _, weight := range weights {
		largest = max(largest, weigh(weight))
	}
	last := priority.Level(len(weights))
	queues := make(map[string]int, last)
	for i, weight := range weights {
		scaled := (weigh(weight)*maxAsynqWeight + largest - 1) / largest // rounded up, so that no weight is 0
		queues[Name(prefix, priority.Level(i+1), last)] = int(scaled)
	}
	return queues
}
