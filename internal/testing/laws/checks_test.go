package laws

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// What random sequences do not meet: crowds, and a Submit at the very time of a late Done.

func acme(operation prioritytest.Operation, documents ...string) step {
	return step{call: &call{operation: operation, customers: customers[:1], documents: documents, n: 15}}
}

func fails(fault prioritytest.Fault) step { return step{fault: &fault} }

var heals, recovers = step{heal: true}, step{wait: forRecovery}

// lateDones submit a document again while its Done, which failed before, is on its way.
func lateDones() (all [][]step) {
	slow := prioritytest.Fault{Slow: true, Delay: timeout * 3 / 4, Operations: []prioritytest.Operation{prioritytest.Done}}
	for after := time.Duration(0); after <= recovery; after += timeout / 3 {
		all = append(all, []step{
			acme(prioritytest.Submit, "a"), fails(prioritytest.Fault{}), acme(prioritytest.Done, "a"), heals,
			fails(slow), {amount: after}, acme(prioritytest.Submit, "a"), {amount: timeout}, heals,
		})
	}
	return all
}

// crowd makes calls of all kinds at the same time. Each document has a place that no other
// has, and the fleet has all of them.
func (r *run) crowd() {
	const callers, each = 8, 12
	ctx := context.Background()
	var mu sync.Mutex
	places := make(map[[2]int64]int) // by count and pending
	var calling sync.WaitGroup
	for i := range callers {
		calling.Go(func() {
			for n := range each {
				c := call{operation: operations[n%4], customers: customers[:1], documents: []string{fmt.Sprint(i, n)}, n: 1}
				a := c.on(ctx, r.store)
				mu.Lock()
				for _, d := range a.decisions {
					places[[2]int64{d.Count, d.Pending}]++
				}
				mu.Unlock()
				class(a.err)
			}
		})
	}
	calling.Wait()
	for at, n := range places {
		if n > 1 {
			broken(1, "%d documents have the count %d and are pending as number %d", n, at[0], at[1])
		}
	}
	const submits = callers * each / 4
	if state := r.peek(customers[0]); len(places) != callers*each || state.Count != 1-3*submits || state.Pending != submits {
		broken(1, "after %d documents by count and %d by load there are %d decisions and %s", 3*submits, submits, len(places), describe(state))
	}
}

// everythingHangs makes many calls while nothing answers.
func (r *run) everythingHangs() {
	const callers = 1600 // more than are in flight
	many := numbered(0, 1000)
	patiences := []time.Duration{timeout, timeout / 5}
	if testing.Short() {
		patiences = patiences[:1]
	}
	for _, patience := range patiences {
		r.fail(prioritytest.Fault{Class: priority.ErrOutcomeUnknown, Delay: timeout})
		took, answers := make([]time.Duration, callers), make([]answer, callers)
		var calling sync.WaitGroup
		for i := range callers {
			calling.Go(func() {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				c := call{operation: operations[i%len(operations)], customers: many[i%1000 : i%1000+1], documents: many[:1], n: 1}
				switch {
				case i == 2:
					c.customers = many
				case c.operation == prioritytest.SubmitN:
					c.documents = many[:60]
				}
				start := time.Now()
				answers[i] = c.on(ctx, r.store)
				took[i] = time.Since(start)
			})
		}
		r.bounded("while everything hangs", callers+mostGoroutines)
		calling.Wait()
		for i, a := range answers {
			for _, err := range a.errs {
				class(err)
			}
			if took[i] > patience {
				broken(2, "a call took %v, more than %v", took[i], patience)
			}
		}
		r.heal()
		r.pass(max(r.recovery, time.Second) + time.Millisecond)
		r.bounded("after everything hung", mostGoroutines)
	}
}

// trouble makes a fault for the first customer, and callers who call for it, until the
// fault ends.
func (r *run) trouble(fault prioritytest.Fault, meanwhile func()) {
	fault.Customer = customers[0]
	r.fail(fault)
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	for range 10 {
		calling.Go(func() {
			for ctx.Err() == nil {
				_, _ = r.store.Next(ctx, customers[0])
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	defer func() {
		cancel()
		calling.Wait()
		r.heal()
		r.pass(r.recovery + time.Millisecond)
	}()
	meanwhile()
}

// others calls for another customer, who is answered at once by the fleet; at the latest
// after a while.
func (r *run) others(latest time.Duration) {
	first := r.now()
	for i := range 25 {
		c := call{operation: prioritytest.Next, customers: customers[1:2]}
		start := time.Now()
		a := c.on(context.Background(), r.store)
		r.note("%v = %v", &c, &a)
		if r.now()-first >= latest && (a.err != nil || a.decisions[0].Degraded || time.Since(start) > 0) {
			broken(6, "%q has trouble, and %v = %v after %v", customers[0], &c, &a, time.Since(start))
		}
		r.pass(time.Duration(1+13*i)*time.Millisecond + latest/12) // out of step with everything
	}
}

func (r *run) oneHangs() {
	for _, class := range []error{priority.ErrOutcomeUnknown, priority.ErrNotCounted} {
		r.trouble(prioritytest.Fault{Class: class, Delay: timeout}, func() { r.others(10 * r.recovery) })
	}
}

func (r *run) oneIsCorrupt() {
	r.trouble(prioritytest.Fault{Class: priority.ErrCorrupt}, func() { r.others(0) })
}
