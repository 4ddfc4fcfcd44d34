package linearizability

import (
	"testing"

	"github.com/anishathalye/porcupine"
	"github.com/docpriority/priority"
)

// TestLevels compares the table above with the default policy's.
func TestLevels(t *testing.T) {
	policy := priority.DefaultPolicy()
	for count := int64(0); count > -100; count-- {
		if got, want := levelOf(count), policy.Level(count); got != want {
			t.Errorf("the model's level of %d is %d, the policy's %d", count, got, want)
		}
	}
}

func TestModel(t *testing.T) {
	tests := []struct {
		name         string
		linearizable bool
		history      []porcupine.Operation
	}{
		{"nothing", true, nil},
		{"one after the other", true, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-1)), op(4, 5, doPeek, at(-1)),
		}},
		{"no count", true, []porcupine.Operation{op(0, 1, doPeek, none), op(2, 3, doNext, at(0))}},
		{"a count that nobody made", false, []porcupine.Operation{op(0, 1, doPeek, at(0))}},
		{"a count told twice", false, []porcupine.Operation{
			op(0, 9, doNext, at(0)), op(1, 9, doNext, at(0)),
		}},
		{"a count left out", false, []porcupine.Operation{op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-2))}},
		{"a count that goes up", false, []porcupine.Operation{
			op(0, 1, doNext, at(-1)), op(2, 3, doNext, at(0)),
		}},
		{"the same, but at once", true, []porcupine.Operation{
			op(0, 3, doNext, at(-1)), op(2, 3, doNext, at(0)),
		}},
		{"a wrong level", false, []porcupine.Operation{
			op(0, 1, doNext, result{told: []told{{level: 2, count: 0, running: true}}}),
		}},
		{"a stale peek", false, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-1)), op(4, 5, doPeek, at(0)),
		}},
		{"many at once", true, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 3, doNextN(3), at(-1, -2, -3)), op(4, 5, doPeek, at(-3)),
		}},
		{"many at once, with another in between", false, []porcupine.Operation{
			op(0, 9, doNextN(3), at(0, -2, -3)), op(0, 9, doNext, at(-1)),
		}},
		{"many at once, seen half done", false, []porcupine.Operation{
			op(0, 9, doNextN(3), at(0, -1, -2)), op(0, 9, doPeek, at(-1)),
		}},
		{"a reset", true, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-1)), op(4, 5, doReset, done),
			op(6, 7, doPeek, none), op(8, 9, doNext, at(0)),
		}},
		{"a reset at the same time", true, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 9, doReset, done), op(3, 9, doNext, at(-1)), op(10, 11, doPeek, none),
		}},
		{"a reset that does nothing", false, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 3, doReset, done), op(4, 5, doNext, at(-1)),
		}},

		// Calls of unknown outcome return at the end of the history, here 99.
		{"unknown, and counted", true, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(2, 3, doNext, at(-1)),
		}},
		{"unknown, and not counted", true, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(2, 3, doNext, at(0)),
		}},
		{"unknown, and counted much later", true, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(2, 3, doNext, at(0)), op(4, 5, doPeek, at(0)), op(6, 7, doPeek, at(-1)),
		}},
		{"unknown, and counted before it began", false, []porcupine.Operation{
			op(0, 1, doNext, at(-1)), op(2, 99, doNext, unknown),
		}},
		{"unknown, and counted twice", false, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(2, 3, doNext, at(-2)),
		}},
		{"unknown, and only half of it counted", false, []porcupine.Operation{
			op(0, 99, doNextN(2), unknown), op(2, 3, doNext, at(-1)),
		}},
		{"two unknown, one of them counted", true, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(1, 99, doNextN(3), unknown), op(2, 3, doNext, at(-3)),
		}},
		{"an unknown reset, done late", true, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 99, doReset, unknown), op(4, 5, doNext, at(-1)), op(6, 7, doNext, at(0)),
		}},
		{"an unknown reset, done twice", false, []porcupine.Operation{
			op(0, 1, doNext, at(0)), op(2, 99, doReset, unknown), op(4, 5, doNext, at(0)), op(6, 7, doNext, at(0)),
		}},

		{"two customers", true, []porcupine.Operation{
			of("b", op(0, 1, doNext, at(0))), op(2, 3, doNext, at(0)), of("b", op(4, 5, doNext, at(-1))),
		}},
		{"two customers, one of them wrong", false, []porcupine.Operation{
			of("b", op(0, 1, doNext, at(0))), op(2, 3, doNext, at(0)), of("b", op(4, 5, doNext, at(0))),
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := porcupine.CheckOperations(model(), test.history); got != test.linearizable {
				t.Errorf("the model finds it linearizable: %t", got)
			}
		})
	}
}

var (
	doNext  = call{operation: next, customer: "a"}
	doPeek  = call{operation: peek, customer: "a"}
	doReset = call{operation: reset, customer: "a"}

	none    = result{told: []told{{}}}
	done    = result{}
	unknown = result{unknown: true}
)

func doNextN(n int) call { return call{operation: nextN, customer: "a", documents: n} }

// at is the result of documents with these counts.
func at(counts ...int64) result {
	var r result
	for _, count := range counts {
		r.told = append(r.told, told{level: levelOf(count), count: count, running: true})
	}
	return r
}

func op(began, ended int64, c call, r result) porcupine.Operation {
	return porcupine.Operation{Input: c, Call: began, Output: r, Return: ended}
}

func of(customer string, o porcupine.Operation) porcupine.Operation {
	c := o.Input.(call)
	c.customer = customer
	o.Input = c
	return o
}
