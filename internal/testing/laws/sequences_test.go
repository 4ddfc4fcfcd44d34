package laws

import (
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// faultySequence returns steps with faults.
func faultySequence(random *rand.Rand) (steps []step) {
	for range 10 + random.IntN(40) {
		s := anyCall(random, customers)
		s.call.costs, s.call.took = nil, 0
		if len(s.call.documents) > 10 {
			s.call.documents = s.call.documents[:10]
		}
		switch random.IntN(12) {
		case 0:
			s.caller.ended = !s.caller.other
		case 1:
			if !s.caller.other {
				s.caller.patience = time.Duration(1+random.IntN(30)) * time.Millisecond
			}
		case 2:
			s = step{amount: time.Duration(1+random.IntN(2000)) * time.Millisecond}
		case 3:
			s = recovers
		case 4, 5:
			s = step{fault: anyFault(random)}
		case 6:
			s = heals
		}
		steps = append(steps, s)
	}
	return steps
}

// faults are the ways in which calls fail.
var faults = []prioritytest.Fault{
	{},                                  // refused
	{Delay: timeout},                    // no connection
	{Class: priority.ErrOutcomeUnknown}, // lost
	{Class: priority.ErrOutcomeUnknown, Counted: true},   // reply lost
	{Class: priority.ErrOutcomeUnknown, Delay: timeout},  // hanging
	{Slow: true, Delay: timeout / 3},                     // slow
	{Class: priority.ErrCorrupt, Customer: customers[0]}, // corrupt
}

func anyFault(random *rand.Rand) *prioritytest.Fault {
	f := pick(random, faults...)
	switch random.IntN(5) {
	case 0, 1:
		f.Customer = pick(random, customers...)
	case 2:
		if !f.Slow {
			f.Calls = 1 + random.IntN(3)
		}
	}
	return &f
}
