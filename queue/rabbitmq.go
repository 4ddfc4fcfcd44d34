package queue

import "github.com/docpriority/priority"

// RabbitMQMaxPriority returns the x-max-priority to declare a classic queue with:
// a priority for each level, from 0 up, but no more than 10, for each costs the
// server a queue of its own. It is at least 1. A queue that exists keeps the one
// that it was declared with; [RabbitMQ] makes do with that.
func RabbitMQMaxPriority(last priority.Level) uint8 {
	return uint8(max(2, min(last, 11)) - 1)
}

// RabbitMQ returns a message's priority for a classic queue that was declared with
// x-max-priority: maxPriority for level 1, 0 for the last. RabbitMQ serves the
// largest number first. A message without a priority counts as 0. For a quorum queue
// of RabbitMQ 4.3 or later with an x-max-priority, it is the same.
//
// The last level starves: it waits for as long as there is anything else.
// Set Qos(1, 0, false) and acknowledge by hand: without it a consumer is sent
// everything as it arrives, and nothing is left in the queue to be ordered.
func RabbitMQ(level, last priority.Level, maxPriority uint8) uint8 {
	return maxPriority - uint8(Class(level, last, priority.Level(maxPriority)+1)-1)
}

// RabbitMQQuorum returns a message's priority for a quorum queue of RabbitMQ 4.0
// to 4.2, which has two classes: 0 is normal, for the last level, and 5 is high,
// for all others. Before 4.0 a quorum queue has no priorities.
//
// The last level does not starve: two high messages are served for a normal one.
func RabbitMQQuorum(level, last priority.Level) uint8 {
	const normal, high = 0, 5
	if Class(level, last, 2) == 1 {
		return high
	}
	return normal
}
