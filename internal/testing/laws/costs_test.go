package laws

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// Ordinary documents cost 1 to 2, so none of them costs less than half or more than twice as
// much as others. One customer's are wild, or one document of a random customer is.

const wildCustomer = "wild"

// costSequence returns Submits and Dones, each with a cost.
func costSequence(random *rand.Rand) (steps []step) {
	least, most := pick(random, -40., 0), pick(random, 0., 40)
	wild := func() float64 { return math.Exp(least + random.Float64()*(most-least)) }
	add := func(customer string, ids []string, cost func() float64) {
		submit := call{operation: prioritytest.SubmitN, customers: []string{customer}, documents: ids}
		for range ids {
			submit.costs = append(submit.costs, cost())
		}
		done := submit
		done.operation, done.took = prioritytest.DoneN, time.Duration(min(cost(), 1e6)*1e9)
		steps = append(steps, step{call: &submit}, step{call: &done})
	}
	wildAt := random.IntN(60)
	oneCustomer := random.IntN(2) == 0
	for at := range 60 {
		switch {
		case oneCustomer && random.IntN(2) == 0:
			add(wildCustomer, numbered(random.IntN(100), 1+random.IntN(20)), wild)
		case !oneCustomer && at == wildAt:
			add(fmt.Sprint("customer ", random.IntN(6)), numbered(0, 1), wild)
		default:
			add(fmt.Sprint("customer ", random.IntN(6)), numbered(0, 1), func() float64 { return 1 + random.Float64() })
		}
	}
	return steps
}

// costs does the steps, and checks what ordinary documents cost: by Submit, as their load says,
// and by Done, as Peek says of their customer. A wild Done also changes what its own customer's
// documents cost.
func (r *run) costs(steps []step) {
	fair := func(cost float64) bool { return cost >= .499 && cost <= 2.001 }
	ordinary := func(cost float64) bool { return cost >= 1 && cost <= 2 }
	tookWild := make(map[string]bool)
	for _, s := range steps {
		customer := s.call.customers[0]
		a := r.call(caller{}, s.call)
		if a.err != nil {
			broken(1, "%v fails: %v", s.call, a.err)
		}
		if customer == wildCustomer {
			continue
		}
		state := r.peek(customer)
		if s.call.operation == prioritytest.DoneN {
			tookWild[customer] = tookWild[customer] || !ordinary(s.call.took.Seconds())
			if state.Rule == priority.ByLoad && !fair(state.Cost) && !tookWild[customer] {
				broken(6, "%v took %v, and %q has %s", s.call, s.call.took, customer, describe(state))
			}
		} else if cost := a.decisions[0].Load / (state.Recent * float64(state.Pending)); ordinary(s.call.costs[0]) && !fair(cost) {
			broken(6, "%v costs %v, and %v times as much as others", s.call, s.call.costs[0], cost)
		}
	}
}
