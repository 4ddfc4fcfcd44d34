package linearizability

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

func TestModel(t *testing.T) {
	tests := []struct {
		name         string
		linearizable bool
		history      []porcupine.Operation
	}{
		{"a count told twice", false, []porcupine.Operation{op(0, 9, doNext, at(0)), op(1, 9, doNext, at(0))}},
		{"a count left out", false, []porcupine.Operation{op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-2))}},
		{"a count that goes up", false, []porcupine.Operation{op(0, 1, doNext, at(-1)), op(2, 3, doNext, at(0))}},
		{"the same, but at once", true, []porcupine.Operation{op(0, 3, doNext, at(-1)), op(2, 3, doNext, at(0))}},
		{"a stale peek", false, []porcupine.Operation{op(0, 1, doNext, at(0)), op(2, 3, doNext, at(-1)), op(4, 5, doPeek, at(0))}},
		{"many at once, with another in between", false, []porcupine.Operation{op(0, 9, doNextN(3), at(0, -2, -3)), op(0, 9, doNext, at(-1))}},
		{"a reset", true, []porcupine.Operation{op(0, 1, doNext, at(0)), op(2, 3, doReset, done), op(4, 5, doPeek, none), op(6, 7, doNext, at(0))}},
		{"a reset that does nothing", false, []porcupine.Operation{op(0, 1, doNext, at(0)), op(2, 3, doReset, done), op(4, 5, doNext, at(-1))}},
		// Calls of unknown outcome return at the end of the history, here 99.
		{"unknown, and counted much later", true, []porcupine.Operation{
			op(0, 99, doNext, unknown), op(2, 3, doNext, at(0)), op(4, 5, doPeek, at(0)), op(6, 7, doPeek, at(-1)),
		}},
		{"unknown, and counted before it began", false, []porcupine.Operation{op(0, 1, doNext, at(-1)), op(2, 99, doNext, unknown)}},
		{"unknown, and counted twice", false, []porcupine.Operation{op(0, 99, doNext, unknown), op(2, 3, doNext, at(-2))}},
		{"unknown, and only half of it counted", false, []porcupine.Operation{op(0, 99, doNextN(2), unknown), op(2, 3, doNext, at(-1))}},
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
