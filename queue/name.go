package queue

import (
	"strconv"

	"github.com/docpriority/priority"
)

// Name returns the name for a level's own queue, such as documents-3, where a queue
// has no priorities: an asynq queue (see [AsynqQueues]), a Redis list or stream, an
// SQS queue, a Pub/Sub topic, a Kafka topic. The prefix has to be what that one
// allows: for Pub/Sub it begins with a letter, for a FIFO queue of SQS the name
// needs ".fifo" after it, and in a Redis Cluster braces, as in {documents}, keep
// all lists on one node.
//
// Whether the lowest level starves is the consumer's affair, which chooses the
// queue to take the next document from. With a zero [priority.Picker] it starves,
// as it does with BLPOP, XREAD or polling in the order of [Names]; with a Picker
// that has weights it does not.
//
// Prefetch: receive one document at a time, when a worker is free: BLMOVE or XREADGROUP
// COUNT 1, MaxNumberOfMessages 1 in SQS, MaxOutstandingMessages of as many as there
// are workers in Pub/Sub. A Kafka consumer fetches whole batches: pause the
// partitions of the levels that are not to be served, or lower max.poll.records.
//
// Retries: a document that is not acknowledged comes back in its own queue (SQS,
// Pub/Sub, a stream's pending entries, a Kafka offset that was not committed), so
// its level stays. What a worker took from a Redis list is gone with the worker,
// unless BLMOVE put it into a list of that worker's.
func Name(prefix string, level, lowest priority.Level) string {
	return prefix + "-" + strconv.Itoa(int(clamp(level, lowest)))
}

// Names returns the names of all levels' queues, that of level 1 first. It is the
// order for BLPOP, which serves the first list that has something.
func Names(prefix string, lowest priority.Level) []string {
	return each(prefix, lowest, Name)
}

func each(prefix string, lowest priority.Level, name func(string, priority.Level, priority.Level) string) []string {
	names := make([]string, max(lowest, 1))
	for i := range names {
		names[i] = name(prefix, priority.Level(i+1), lowest)
	}
	return names
}
