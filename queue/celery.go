package queue

import "github.com/docpriority/priority"

// defaultCelerySteps are Celery's steps where priority_steps is not set.
var defaultCelerySteps = []int{0, 3, 6, 9}

// CelerySteps returns the priority_steps to set in Celery's broker_transport_options
// for a step a level: 0, 1 and so on, up to the ten that Celery has on Redis.
func CelerySteps(last priority.Level) []int {
	steps := make([]int, max(1, min(last, 10)))
	for i := range steps {
		steps[i] = i
	}
	return steps
}

// Celery returns a task's priority for Celery on Redis (on RabbitMQ it is what
// [RabbitMQ] says): one of the priority_steps, ascending, by [Class]. No steps are
// Celery's default, 0, 3, 6 and 9. Celery serves the smallest number first on Redis.
// Workers and producers need broker_transport_options with the same priority_steps
// and with queue_order_strategy "priority".
//
// The last level starves: a worker looks at the steps in order each time.
func Celery(level, last priority.Level, steps []int) int {
	if len(steps) == 0 {
		steps = defaultCelerySteps
	}
	return steps[Class(level, last, priority.Level(len(steps)))-1]
}
