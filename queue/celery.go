package queue

import "github.com/docpriority/priority"

// defaultCelerySteps are Celery's steps if priority_steps is not set.
var defaultCelerySteps = []int{0, 3, 6, 9}

// CelerySteps returns the priority_steps to set in Celery's
// broker_transport_options, one for each level: 0, 1 and so on, up to the ten steps
// that Celery has on Redis.
func CelerySteps(last priority.Level) []int {
	steps := make([]int, max(1, min(last, 10)))
	for i := range steps {
		steps[i] = i
	}
	return steps
}

// Celery returns a task's priority for Celery on Redis: one of the priority_steps,
// ascending, by [Class]. Empty steps mean Celery's default, 0, 3, 6 and 9. On Redis,
// Celery serves the smallest number first. For Celery on RabbitMQ use [RabbitMQ].
// Workers and producers need the same priority_steps in broker_transport_options.
//
// The last level starves: a worker looks at the steps in order each time.
func Celery(level, last priority.Level, steps []int) int {
	if len(steps) == 0 {
		steps = defaultCelerySteps
	}
	return steps[Class(level, last, priority.Level(len(steps)))-1]
}
