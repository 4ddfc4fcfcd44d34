package laws

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

// step is what a random sequence does next. It means the same whatever was done before,
// so that steps can be left out.
type step struct {
	caller caller
	call   *call

	wait     waitFor
	customer string // whose time the wait is for
	amount   time.Duration

	fault *prioritytest.Fault
	heal  bool
}

// waitFor is what a wait is for.
type waitFor int

const (
	forAmount   waitFor = iota
	forReset            // until exactly the end of the customer's interval, and the amount
	forLeaseEnd         // until exactly the end of the oldest document's lease, and the amount
	forRecovery         // until an outage is over
)

var operations = []prioritytest.Operation{
	prioritytest.Next, prioritytest.NextN, prioritytest.NextEach, prioritytest.Submit, prioritytest.Submit, prioritytest.SubmitN,
	prioritytest.Done, prioritytest.DoneN, prioritytest.Peek, prioritytest.Reset,
}

// documents have ids that look like what else their customer's key holds.
var documents = []string{":fades", ":lost", "::fades", ":/4/maryd0", "d0", "d1"}

// numbered returns the ids of n documents.
func numbered(from, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("d", from+i)
	}
	return ids
}

func pick[T any](random *rand.Rand, of ...T) T { return of[random.IntN(len(of))] }

// delays of documents are also waited for, so that documents become due, and leases end.
var delays = []time.Duration{0, 0, 0, 0, time.Millisecond, 1900 * time.Microsecond, time.Second, 5 * time.Second, time.Minute, time.Hour, 50 * time.Hour}

// anyCall returns a random call for one of the customers, of another process at times.
func anyCall(random *rand.Rand, customers []string) step {
	c := &call{operation: pick(random, operations...), n: pick(random, 0, 1, 2, 3, 5, 12, 30), took: time.Duration(random.IntN(30)) * time.Second}
	s := step{call: c}
	if random.IntN(6) == 0 {
		s.caller.other, c.took = true, 0
	}
	for range 1 + random.IntN(6) {
		c.customers = append(c.customers, pick(random, customers...))
	}
	c.documents = slices.Clone(documents)
	random.Shuffle(6, reflect.Swapper(c.documents))
	c.documents = slices.Concat(c.documents[:random.IntN(6)], c.documents[:1+random.IntN(2)]) // some twice
	switch c.operation {
	case prioritytest.NextEach:
	case prioritytest.SubmitN, prioritytest.DoneN:
		c.customers = c.customers[:1]
		if random.IntN(8) == 0 { // more than a script takes
			c.documents = numbered(random.IntN(100), random.IntN(300))
		}
	default:
		c.customers, c.documents = c.customers[:1], c.documents[:1]
	}
	return s
}

// exactSequence returns what is compared with the reference, without faults.
func exactSequence(random *rand.Rand) (steps []step) {
	if random.IntN(2) == 0 { // let the process know what documents cost
		for _, customer := range numbered(0, 3) {
			submit := call{operation: prioritytest.Submit, customers: []string{customer}, documents: documents[:1], costs: []float64{3}, took: time.Second}
			done := submit
			done.operation = prioritytest.Done
			steps = append(steps, step{call: &submit}, step{call: &done})
		}
	}
	who := slices.Clone(everyone)
	random.Shuffle(len(who), reflect.Swapper(who))
	isDelayed := random.IntN(3) > 0
	for range 10 + random.IntN(50) {
		s := anyCall(random, who[:3])
		if random.IntN(3) == 0 {
			s = step{wait: pick(random, forAmount, forReset, forLeaseEnd), customer: pick(random, who[:3]...), amount: time.Duration(random.IntN(2)) * time.Millisecond}
			if s.wait == forAmount {
				s.amount = time.Duration(1+random.IntN(5000)) * time.Millisecond
				switch random.IntN(8) {
				case 0, 1:
					s.amount = time.Duration(random.Int64N(int64(4 * fair.Day))).Truncate(time.Millisecond)
				case 2, 3:
					s.amount = pick(random, delays...).Truncate(time.Millisecond)
				}
			}
			steps = append(steps, s)
			continue
		}
		if done := s.call.operation == prioritytest.Done || s.call.operation == prioritytest.DoneN; !done && random.IntN(12) == 0 {
			s.caller = caller{ended: true} // a Done that failed may be remembered, and sent
		}
		if !s.caller.other && random.IntN(2) == 0 { // in any unit, and sometimes wild
			for range s.call.documents {
				s.call.costs = append(s.call.costs, pick(random, 0, 1, 3, 4.7, 1e6))
			}
		}
		if isDelayed && random.IntN(2) == 0 {
			for range s.call.documents {
				s.call.delays = append(s.call.delays, pick(random, delays...))
			}
		}
		steps = append(steps, s)
	}
	return steps
}

// exact does the steps, and the same with a reference: what the calls return and what the
// fleet knows is equal, number by number.
func (r *run) exact(steps []step) {
	reference := reference(time.Now)
	for _, s := range steps {
		if s.call == nil {
			r.pass(r.length(s))
			for _, customer := range everyone {
				r.same(reference, customer)
			}
			continue
		}
		got := r.call(s.caller, s.call)
		if s.caller.ended {
			if s.call.entries() > 0 && (class(got.err) != priority.ErrNotCounted || !errors.Is(got.err, context.Canceled)) {
				broken(1, "%v, whose context has ended, = %v", s.call, got.err)
			}
		} else if want := onReference(reference, s.call); got.err != nil || !slices.Equal(got.decisions, want.decisions) ||
			got.state != want.state || !slices.Equal(got.ended, want.ended) {
			broken(1, "%v = %v, want\n    %v", s.call, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
		}
		for _, customer := range s.call.customers {
			r.same(reference, customer)
		}
	}
	reference.Clear()
}

// onReference makes a call of the reference; many Nexts are as many single ones.
func onReference(reference *memory.Store, c *call) (a answer) {
	nexts := c.customers
	switch c.operation {
	case prioritytest.NextN:
		nexts = slices.Repeat(nexts, c.n)
	case prioritytest.NextEach:
	default:
		return c.on(context.Background(), reference)
	}
	for _, customer := range nexts {
		decision, err := reference.Next(context.Background(), customer)
		a.decisions, a.err = append(a.decisions, decision), errors.Join(a.err, err)
	}
	return a
}

// same checks that the fleet knows of a customer what the reference knows.
func (r *run) same(reference *memory.Store, customer string) {
	got := r.peek(customer)
	if want, err := reference.Peek(context.Background(), customer); err != nil || got != want {
		broken(5, "the fleet has of %q\n    %s, want\n    %s, %v", customer, describe(got), describe(want), err)
	}
}

// length returns how long a step waits.
func (r *run) length(s step) time.Duration {
	state, d := r.peek(s.customer), s.amount
	switch s.wait {
	case forReset:
		d += state.ResetIn
	case forLeaseEnd:
		d += max(0, state.Lease-state.Oldest)
	}
	if r.busy {
		d = min(d, options.Policy.ResetInterval+time.Millisecond)
	}
	r.note("wait %v", d)
	return d
}

// policies checks that the policies are those of the inside, and are not lent.
func (r *run) policies() {
	reference := reference(time.Now)
	for _, customer := range append(everyone, "anyone else") {
		got, want := r.store.PolicyOf(customer), reference.PolicyOf(customer)
		if !reflect.DeepEqual(got, want) || r.store.Last() != reference.Last() {
			broken(7, "PolicyOf(%q) = %+v, Last() = %d, but %+v, %d inside", customer, got, r.store.Last(), want, reference.Last())
		}
		got.Thresholds[0], got.Loads[0] = 1<<40, -1
		if !reflect.DeepEqual(r.store.PolicyOf(customer), want) {
			broken(7, "who changes what PolicyOf(%q) returns changes the Store's", customer)
		}
	}
}
