package queue

import (
	"strconv"

	"github.com/docpriority/priority"
)

// Name returns the name of a level's queue, such as documents-3, for systems without
// priorities: an asynq queue (see [AsynqQueues]), a Redis list or stream, an SQS queue, a
// Pub/Sub topic, a Kafka topic. The prefix must be valid there: for Pub/Sub it begins with
// a letter, for a FIFO queue of SQS append ".fifo" to the name, and in a Redis Cluster
// braces, as in {documents}, keep all lists on one node.
//
// Whether the last level starves depends on the consumer, which chooses the queue
// to take the next document from. With a zero [Picker] it starves, as it does with
// BLPOP, XREAD or polling in the order of [Names]; with a Picker that has weights
// it does not.
func Name(prefix string, level, last priority.Level) string {
	return prefix + "-" + strconv.Itoa(int(clamp(level, last)))
}

// Names returns the names of all levels' queues, level 1 first: the order for
// BLPOP, which serves the first list that is not empty.
func Names(prefix string, last priority.Level) []string {
	names := make([]string, max(last, 1))
	for i := range names {
		names[i] = Name(prefix, priority.Level(i+1), last)
	}
	return names
}
