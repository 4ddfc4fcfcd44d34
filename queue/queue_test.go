package queue_test

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/queue"
)

// order is how a queue numbers what it serves first: downwards or upwards.
type order int

const (
	smallestFirst order = 1
	largestFirst  order = -1
)

// adapters are the functions from a level to a number, and the numbers that each
// may use for a policy, from the one served first.
var adapters = map[string]struct {
	order  order
	number func(level, last priority.Level) int
	all    func(last priority.Level) []int
}{
	"Class of 1": {smallestFirst, classOf(1), numbers(1, 1)},
	"Class of 3": {smallestFirst, classOf(3), numbers(1, 3)},
	"River":      {smallestFirst, queue.River, numbers(1, 4)},
	"RabbitMQ": {
		largestFirst,
		func(level, last priority.Level) int {
			return int(queue.RabbitMQ(level, last, queue.RabbitMQMaxPriority(last)))
		},
		func(last priority.Level) []int { return numbers(int(max(2, min(last, 32)))-1, 0)(last) },
	},
	"RabbitMQ, x-max-priority 5":   {largestFirst, rabbitMQ(5), numbers(5, 0)},
	"RabbitMQ, x-max-priority 255": {largestFirst, rabbitMQ(255), numbers(255, 0)},
	"RabbitMQ, x-max-priority 0":   {largestFirst, rabbitMQ(0), numbers(0, 0)},
	"RabbitMQQuorum": {
		largestFirst,
		func(level, last priority.Level) int { return int(queue.RabbitMQQuorum(level, last)) },
		func(last priority.Level) []int { return numbers(3+max(1, min(int(last), 28)), 4)(last) },
	},
}

func classOf(classes priority.Level) func(level, last priority.Level) int {
	return func(level, last priority.Level) int { return int(queue.Class(level, last, classes)) }
}

func rabbitMQ(maxPriority uint8) func(level, last priority.Level) int {
	return func(level, last priority.Level) int { return int(queue.RabbitMQ(level, last, maxPriority)) }
}

// numbers returns a function to the numbers from first to last, up or down.
func numbers(first, last int) func(priority.Level) []int {
	var all []int
	for n := first; ; n += cmp.Compare(last, first) {
		all = append(all, n)
		if n == last {
			return func(priority.Level) []int { return all }
		}
	}
}

// Every adapter, for every last level up to 255: level 1 has what is served first,
// no level is served before an earlier one, the last has what is served last, floods share
// it with others only where they must, and where levels share, all numbers are in use.
func TestLevelOneIsServedFirstAndTheLastLevelLast(t *testing.T) {
	for name, adapter := range adapters {
		t.Run(name, func(t *testing.T) {
			for last := priority.Level(1); last <= 255; last++ {
				all := adapter.all(last)
				used := []int{adapter.number(1, last)}
				if used[0] != all[0] {
					t.Fatalf("level 1 of %d is %d; %d is served first", last, used[0], all[0])
				}
				for level := priority.Level(2); level <= last; level++ {
					before, number := adapter.number(level-1, last), adapter.number(level, last)
					if (number-before)*int(adapter.order) < 0 {
						t.Fatalf("level %d of %d is %d and served before level %d, which is %d", level, last, number, level-1, before)
					}
					if number != before {
						used = append(used, number)
					} else if level == min(last, 6) && len(all) > 1 {
						t.Fatalf("level %d of %d shares %d with the one before it", level, last, number)
					}
				}
				if number := adapter.number; number(0, last) != used[0] || number(last+1, last) != used[len(used)-1] {
					t.Fatalf("a level outside %d is not the nearest inside", last)
				}
				if last > 1 && used[len(used)-1] != all[len(all)-1] {
					t.Fatalf("the last level of %d is %d; %d is served last", last, used[len(used)-1], all[len(all)-1])
				}
				if want := min(int(last), len(all)); len(used) != want {
					t.Fatalf("the levels of %d are %v: %d numbers, not %d", last, used, len(used), want)
				}
				for _, number := range used {
					if !slices.Contains(all, number) {
						t.Fatalf("a level of %d is %d, which is none of %v", last, number, all)
					}
				}
			}
		})
	}
}

func TestALevelOutsideCountsAsTheNearestInside(t *testing.T) {
	outside := []priority.Level{math.MinInt, -1, 0, 10, 300, math.MaxInt}
	for name, adapter := range adapters {
		for _, level := range outside {
			for _, last := range append(outside, 9) {
				inside := max(last, 1)
				if got, want := adapter.number(level, last), adapter.number(max(1, min(level, inside)), inside); got != want {
					t.Fatalf("%s: level %d of %d is %d and not %d", name, level, last, got, want)
				}
			}
		}
	}
}

func TestNineLevelsAreThoseOfTheDocs(t *testing.T) {
	for name, test := range map[string]struct {
		number func(level, last priority.Level) int
		want   []int
	}{
		"River":                      {queue.River, []int{1, 1, 1, 2, 3, 4, 4, 4, 4}},
		"RabbitMQ":                   {rabbitMQ(queue.RabbitMQMaxPriority(9)), []int{8, 7, 6, 5, 4, 3, 2, 1, 0}},
		"RabbitMQ, x-max-priority 5": {rabbitMQ(5), []int{5, 4, 3, 2, 1, 0, 0, 0, 0}},
		"RabbitMQQuorum":             {adapters["RabbitMQQuorum"].number, []int{12, 11, 10, 9, 8, 7, 6, 5, 4}},
	} {
		var got []int
		for level := priority.Level(1); level <= 9; level++ {
			got = append(got, test.number(level, 9))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestNamesAreThoseOfAllLevelsInOrder(t *testing.T) {
	if got, want := queue.Names("documents", 3), []string{"documents-1", "documents-2", "documents-3"}; !slices.Equal(got, want) {
		t.Errorf("Names: %q, want %q", got, want)
	}
	if got := queue.Names("documents", -1); !slices.Equal(got, []string{"documents-1"}) {
		t.Errorf("Names of no levels: %q", got)
	}
	if got := queue.Name("documents", 12, 9); got != "documents-9" {
		t.Errorf("level 12 of 9 goes to %s, which nobody consumes", got)
	}
}

// By strict priority asynq serves the largest number first, and takes none below 1.
func TestAsynqServesEarlierLevelsFirst(t *testing.T) {
	for last := priority.Level(-1); last <= 255; last++ {
		queues, names := queue.AsynqQueues("documents", last), queue.Names("documents", last)
		for i, name := range names {
			if want := int(last) - i; want > 0 && queues[name] != want || len(queues) != max(int(last), 0) {
				t.Fatalf("%d levels: %v", last, queues)
			}
		}
	}
}
