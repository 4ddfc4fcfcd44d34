package queue

import "github.com/docpriority/priority"

// RabbitMQMaxPriority returns the x-max-priority to declare a classic queue with: a
// priority for each level, from 0 up, but at most 31, because each costs the server a
// separate queue. It is at least 1. An existing queue keeps the number that it was declared
// with; pass that number to [RabbitMQ].
func RabbitMQMaxPriority(last priority.Level) uint8 {
	return uint8(max(2, min(last, 32)) - 1)
}

// RabbitMQ returns a message's priority for a classic queue that was declared with
// x-max-priority: maxPriority for level 1, 0 for the last. RabbitMQ serves the
// largest number first. A message without a priority counts as 0. For a quorum queue
// use [RabbitMQQuorum].
//
// The last level starves: it waits while any other level has documents. Set Qos(1, 0,
// false) and acknowledge by hand: otherwise the server sends a consumer everything as it
// arrives, and leaves nothing in the queue to order.
func RabbitMQ(level, last priority.Level, maxPriority uint8) uint8 {
	return maxPriority - uint8(Class(level, last, priority.Level(maxPriority)+1)-1)
}

// RabbitMQQuorum returns a message's priority for a quorum queue, which takes no
// x-max-priority: 4 for the last level, 5 for the one before it, and so on, 31 at most.
//
// RabbitMQ 4.3 or later serves the largest number first, and the last level starves.
// RabbitMQ 4.0 to 4.2 has two classes, 0 to 4 and the rest: the last level and all
// others. It serves two documents of the others for one of the last level. Before
// 4.0 a quorum queue has no priorities.
//
// It is never below 4, the priority of a message that has none: some clients, amqp091-go
// among them, do not send a 0.
func RabbitMQQuorum(level, last priority.Level) uint8 {
	const normal, highest = 4, 31
	classes := max(1, min(last, highest-normal+1))
	return normal + uint8(classes-Class(level, last, classes))
}
