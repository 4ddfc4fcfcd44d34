package prioritytest

import (
	"context"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/docpriority/priority"
)

// step is something that a random sequence does: an operation, a fault, or a wait.
// It means the same whatever was done before, so that steps can be left out.
type step struct {
	operation Operation
	caller    caller
	customers []int
	documents []int
	costs     []float64 // one for each document, or empty
	n         int

	fault *Fault
	at    int // the index of the Faulty that fails
	heal  bool
	teach bool // the Store what documents cost

	wait   waitFor
	plus   time.Duration
	amount time.Duration
}

// waitFor is how long a step waits.
type waitFor int

const (
	noWait      waitFor = iota
	forAmount           // for Amount
	forRecovery         // until an outage is over
	forLease            // the shortest lease
	forInterval         // a customer's reset interval
	forReset            // until a customer's count is reset
	forLeaseEnd         // until a customer's first lease ends
	waits
)

const (
	documentsInTest = 6
	longestOutage   = 2 * time.Minute
)

// sequence is what a random test does.
type sequence []step

// GoString is what rapid prints: the violation shows what each step did.
func (s sequence) GoString() string { return fmt.Sprint(len(s), " steps") }

// sequences returns a generator. In real time nothing fails and no context ends.
func sequences(virtual bool) *rapid.Generator[sequence] {
	return rapid.Custom(func(t *rapid.T) sequence {
		var steps sequence
		// Some sequences have no faults: in these the Store must equal the model.
		faults := virtual && rapid.IntRange(0, 3).Draw(t, "faults") > 0
		if rapid.Bool().Draw(t, "known costs") {
			steps = append(steps, step{teach: true})
		}
		call := func(operation Operation) func(t *rapid.T) {
			return func(t *rapid.T) { steps = append(steps, drawCall(t, operation, virtual)) }
		}
		customer := rapid.IntRange(0, 2)
		wait := func(t *rapid.T) {
			steps = append(steps, step{
				customers: []int{customer.Draw(t, "customer")},
				wait:      waitFor(rapid.IntRange(1, int(waits)-1).Draw(t, "wait")),
				amount:    time.Duration(rapid.IntRange(1, 2000).Draw(t, "amount")) * time.Millisecond,
				plus:      time.Duration(rapid.IntRange(0, 1).Draw(t, "plus")) * time.Millisecond,
			})
		}
		actions := map[string]func(t *rapid.T){
			"next": call(Next), "next n": call(NextN), "next each": call(NextEach),
			"submit": call(Submit), "submit again": call(Submit), "submit n": call(SubmitN),
			"done": call(Done), "done n": call(DoneN), "peek": call(Peek), "reset": call(Reset),
			"wait": wait, "wait again": wait,
		}
		if faults {
			actions["fail"] = func(t *rapid.T) {
				steps = append(steps, step{customers: []int{0}, fault: drawFault(t), at: rapid.IntRange(0, 7).Draw(t, "at")})
			}
			actions["heal"] = func(t *rapid.T) { steps = append(steps, step{heal: true}) }
		}
		t.Repeat(actions)
		return steps
	})
}

func drawCall(t *rapid.T, operation Operation, virtual bool) step {
	s := step{
		operation: operation,
		customers: rapid.SliceOfN(rapid.IntRange(0, 2), 1, 6).Draw(t, "customers"),
		documents: rapid.SliceOfN(rapid.IntRange(0, documentsInTest-1), 1, 5).Draw(t, "documents"),
		n:         rapid.OneOf(rapid.IntRange(1, 12), rapid.IntRange(21, 32)).Draw(t, "n"), // or to the last level at once
	}
	if rapid.Bool().Draw(t, "cost") { // in an unknown unit, and sometimes wild
		s.costs = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 4, 1e6}), len(s.documents), len(s.documents)).Draw(t, "costs")
	}
	switch who := rapid.IntRange(0, 11).Draw(t, "caller"); {
	case who >= 10:
		s.caller.other = true
	case who == 9 && virtual:
		s.caller.ended = true
	case who == 8 && virtual:
		s.caller.patience = time.Duration(rapid.IntRange(1, 30).Draw(t, "patience")) * time.Millisecond
	}
	return s
}

// drawFault returns a fault; its customer is the number of one, its Delay a part of the
// Timeout in 100 (see makeFault).
func drawFault(t *rapid.T) *Fault {
	customer := fmt.Sprint(rapid.IntRange(0, 2).Draw(t, "customer"))
	kinds := []Fault{
		{}, // not counted
		{Class: priority.ErrOutcomeUnknown, Counted: true},
		{Class: priority.ErrOutcomeUnknown},
		{Class: priority.ErrCorruptCount, Customer: customer},
		{Class: priority.ErrOutcomeUnknown, Delay: 100},
		{Delay: 100},
		{Slow: true, Delay: time.Duration(rapid.IntRange(1, 60).Draw(t, "delay"))},
	}
	f := kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")]
	switch rapid.IntRange(0, 5).Draw(t, "whom it concerns") {
	case 4, 5:
		f.Customer = customer
	case 3:
		if !f.Slow {
			f.Calls = rapid.IntRange(1, 3).Draw(t, "calls")
		}
	}
	return &f
}

// apply does the steps one after the other.
func (r *run) apply(steps []step) {
	for _, customer := range r.Customers[:3] {
		r.observe(customer, span{from: r.now(), to: r.now()})
	}
	for i := range steps {
		r.do(&steps[i])
	}
	r.heal()
	r.pass(r.Recovery + time.Millisecond)
	r.observeAll()
}

func (r *run) do(s *step) {
	r.mayForget()
	switch {
	case s.wait != noWait:
		d := r.waitOf(s)
		r.note(r.now(), "wait %v", d)
		r.pass(d)
		r.observeAll()
		return
	case s.fault != nil:
		r.makeFault(s)
		return
	case s.teach:
		r.teach()
		return
	case s.heal:
		if len(r.active) > 0 {
			r.note(r.now(), "heal")
			r.heal()
			r.observeAll()
		}
		return
	}
	customer := r.Customers[s.customers[0]]
	var entries []entry
	var customers, documents []string
	for _, d := range s.documents {
		documents = append(documents, fmt.Sprint("d", d))
	}
	for _, c := range s.customers {
		customers = append(customers, r.Customers[c])
	}
	one := func(d priority.Decision, err error) ([]priority.Decision, error) { return []priority.Decision{d}, err }
	switch s.operation {
	case Next:
		r.decide(s.caller, Next, []entry{{customer: customer}}, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return one(store.Next(ctx, customer))
		})
	case NextN:
		for range s.n {
			entries = append(entries, entry{customer: customer})
		}
		r.decide(s.caller, NextN, entries, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return store.NextN(ctx, customer, s.n)
		})
	case NextEach:
		for _, customer := range customers {
			entries = append(entries, entry{customer: customer})
		}
		r.decide(s.caller, NextEach, entries, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return store.NextEach(ctx, customers)
		})
	case Submit:
		e := entry{customer: customer, document: documents[0]}
		if s.costs != nil {
			e.cost = s.costs[0]
		}
		r.decide(s.caller, Submit, []entry{e}, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return one(store.Submit(ctx, customer, e.document, e.cost))
		})
	case SubmitN:
		for i, document := range documents {
			e := entry{customer: customer, document: document}
			if s.costs != nil {
				e.cost = s.costs[i]
			}
			entries = append(entries, e)
		}
		r.decide(s.caller, SubmitN, entries, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return store.SubmitN(ctx, customer, documents, s.costs)
		})
	case Done:
		r.done(s.caller, Done, customer, documents[:1])
	case DoneN:
		r.done(s.caller, DoneN, customer, documents)
	case Peek:
		r.peek(s.caller, customer)
	case Reset:
		r.reset(s.caller, customer)
	}
}

// teach submits enough of another customer for the Store to know what documents
// cost.
func (r *run) teach() {
	documents := make([]string, 100)
	for i := range documents {
		documents[i] = fmt.Sprint(i)
	}
	if _, err := r.Store.SubmitN(context.Background(), "teacher", documents, slices.Repeat([]float64{1}, len(documents))); err != nil {
		r.broken(1, "SubmitN: %v", err)
	}
}

func (r *run) makeFault(s *step) {
	if len(r.Faulty) == 0 {
		return
	}
	f, at := *s.fault, s.at%len(r.Faulty)
	if f.Customer != "" {
		f.Customer = r.Customers[f.Customer[0]-'0']
	}
	f.Delay = f.Delay * r.Timeout / 100
	if len(r.active) > 0 && at != r.failing {
		r.heal() // with several faults, a call would have to wait for each
		r.observeAll()
	}
	r.failing = at
	r.note(r.now(), "fail %+v", f)
	r.fail(at, f)
}

// waitOf returns how long a step waits.
func (r *run) waitOf(s *step) time.Duration {
	a, now := r.account(r.Customers[s.customers[0]]), r.now()
	d := s.amount
	switch s.wait {
	case forRecovery:
		d = r.Recovery
	case forLease:
		d = certain(r.leaseOf(s.caller))
	case forInterval:
		d = a.policy.ResetInterval
	case forReset:
		d = 0
		if a.has {
			d = max(0, a.resetAt-now)
		}
	case forLeaseEnd:
		d = a.nextLeaseEnd(now) - now
	}
	d = (d + time.Millisecond - 1).Truncate(time.Millisecond) + s.plus
	if len(r.active) > 0 { // retries during an outage take the test's time
		d = min(d, longestOutage)
	}
	return d
}
