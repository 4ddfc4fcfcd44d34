// Package linearizability checks concurrent histories of stores against the
// rule, one customer at a time: whether there is an order of the calls, each
// taking effect between its start and its end, in which one caller alone would
// have been told the same.
//
// A call that was not counted is left out. A call of unknown outcome may take
// effect at any time after its start, the end of the history included, which
// stands for never: nothing is left then to see it.
package linearizability

import (
	"cmp"
	"maps"
	"slices"

	"github.com/anishathalye/porcupine"

	"github.com/docpriority/priority"
)

// model is the rule for one customer within the reset interval.
func model() porcupine.Model {
	return porcupine.Model{
		Partition: byCustomer,
		Init:      func() any { return state{} },
		Step: func(s, in, out any) (bool, any) {
			after, told := s.(state).do(in.(call))
			seen := out.(result)
			return seen.unknown || slices.Equal(seen.told, told), after
		},
	}
}

// state is a customer's count.
type state struct {
	held  bool
	count int64 // 0 unless it is held
}

// call is what a caller asks for.
type call struct {
	operation operation
	customer  string
	documents int // of a NextN
}

type operation string

const (
	next  operation = "Next"
	nextN operation = "NextN"
	peek  operation = "Peek"
	reset operation = "Reset"
)

// result is what the caller was told.
type result struct {
	unknown bool
	told    []told
}

// told is a decision, but for the time that ResetIn says.
type told struct {
	level   priority.Level
	count   int64
	running bool // ResetIn is more than 0
}

// do is the rule: it returns the state after a call, and what the caller is told.
func (s state) do(c call) (state, []told) {
	switch c.operation {
	case next:
		s = s.after()
		return s, []told{s.told()}
	case nextN:
		all := make([]told, c.documents)
		for i := range all {
			s = s.after()
			all[i] = s.told()
		}
		return s, all
	case peek:
		return s, []told{s.told()}
	case reset:
		return state{}, nil
	}
	panic("no such operation: " + c.operation)
}

// after returns the state after one document.
func (s state) after() state {
	if !s.held {
		return state{held: true}
	}
	return state{held: true, count: s.count - 1}
}

func (s state) told() told {
	if !s.held {
		return told{}
	}
	return told{level: levelOf(s.count), count: s.count, running: true}
}

func levelOf(count int64) priority.Level { return priority.Policy{}.Level(count) }

// byCustomer parts a history: no call touches two customers.
func byCustomer(history []porcupine.Operation) [][]porcupine.Operation {
	parts := make(map[string][]porcupine.Operation)
	for _, op := range history {
		customer := op.Input.(call).customer
		parts[customer] = append(parts[customer], op)
	}
	return slices.SortedFunc(maps.Values(parts), func(a, b []porcupine.Operation) int {
		return cmp.Compare(a[0].Input.(call).customer, b[0].Input.(call).customer)
	})
}
