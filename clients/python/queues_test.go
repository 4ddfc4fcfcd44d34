package python_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

// A level has one name in a queue, whichever language publishes.
func TestPythonNamesLevelsAsGoDoes(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "redis", "python3-redis")
	const program = `
from docpriority._queues import celery_priority, rabbitmq_priority, rabbitmq_quorum_priority
for last in range(1, 41):
    for level in range(0, last + 2):
        print(last, level, rabbitmq_quorum_priority(level, last),
            *(celery_priority(level, last, range(10 - steps, 10)) for steps in range(1, 11)),
            *(rabbitmq_priority(level, last, most) for most in (1, 3, 8, 21, 31, 255)))
`
	got := strings.Split(strings.TrimSpace(run(t, ".", []string{"PYTHONPATH=src"}, interpreter, "-c", program)), "\n")
	var want []string
	for last := priority.Level(1); last <= 40; last++ {
		for level := priority.Level(0); level <= last+1; level++ {
			line := []any{last, level, queue.RabbitMQQuorum(level, last)}
			for steps := priority.Level(1); steps <= 10; steps++ { // the last ones of ten
				line = append(line, 9-steps+queue.Class(level, last, steps))
			}
			for _, most := range []uint8{1, 3, 8, 21, 31, 255} {
				line = append(line, queue.RabbitMQ(level, last, most))
			}
			want = append(want, strings.TrimSuffix(fmt.Sprintln(line...), "\n"))
		}
	}
	if len(got) != len(want) {
		t.Fatalf("Python prints %d lines, not %d", len(got), len(want))
	}
	for i, line := range want {
		if got[i] != line {
			t.Fatalf("for last and level, Python has %s, and Go %s", got[i], line)
		}
	}
}
