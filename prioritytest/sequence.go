package prioritytest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
)

// step is something that a random sequence does: an operation, a fault, or a wait.
// It means the same whatever was done before, so that steps can be left out.
type step struct {
	operation Operation
	caller    caller
	customers []int
	documents []int
	n         int

	fault *Fault
	at    int // which of those that may fail
	heal  bool

	wait   waitFor
	plus   time.Duration
	amount time.Duration
}

// waitFor is how long a step waits.
type waitFor int

const (
	noWait      waitFor = iota
	forAmount           // as long as the step says
	forRecovery         // until an outage is over
	forLease            // the shortest lease
	forInterval         // a customer's reset interval
	forReset            // until a customer's count starts afresh
	forLeaseEnd         // until a customer's first lease ends
	waits
)

const (
	documentsInTest = 6
	longestOutage   = 2 * time.Minute
)

// randomSteps returns the steps of a seed. Where time is real, nothing fails and no
// context ends.
func randomSteps(seed uint64, virtual bool) []step {
	random := rand.New(rand.NewPCG(seed, 0))
	steps := make([]step, 30+random.IntN(50))
	// Some sequences have no faults: there the Store must equal the model.
	faults := virtual && seed%4 != 0
	for i := range steps {
		steps[i] = randomStep(random, faults)
		if !virtual {
			steps[i].caller = caller{other: steps[i].caller.other}
		}
	}
	return steps
}

func randomStep(random *rand.Rand, faults bool) (s step) {
	s.customers = []int{random.IntN(3)}
	switch kind := random.IntN(100); {
	case kind < 20:
		s.wait = 1 + waitFor(random.IntN(int(waits)-1))
		s.amount = time.Duration(1+random.IntN(2000)) * time.Millisecond
		if random.IntN(2) == 0 {
			s.plus = time.Millisecond
		}
		return s
	case kind < 28 && faults:
		s.fault, s.at = randomFault(random), random.IntN(8)
		return s
	case kind < 35 && faults:
		s.heal = true
		return s
	}
	operations := []Operation{Next, Next, NextN, NextN, NextEach, NextEach, Submit, Submit, Submit, SubmitN, Done, Done, DoneN, Peek, Reset}
	s.operation = operations[random.IntN(len(operations))]
	switch random.IntN(12) {
	case 0, 1:
		s.caller.other = true
	case 2:
		s.caller.ended = true
	case 3:
		s.caller.patience = time.Duration(1+random.IntN(30)) * time.Millisecond
	}
	s.n = 1 + random.IntN(12)
	if random.IntN(3) == 0 {
		s.n += 20 // to the last level at once
	}
	for range random.IntN(6) {
		s.customers = append(s.customers, random.IntN(3))
	}
	for range 1 + random.IntN(5) {
		s.documents = append(s.documents, random.IntN(documentsInTest))
	}
	return s
}

// randomFault returns a fault; its customer is the number of one, its Delay a part
// of the Timeout in 100 (see apply).
func randomFault(random *rand.Rand) *Fault {
	f := new(Fault)
	switch random.IntN(6) {
	case 0: // not counted
	case 1:
		f.Class, f.Counted = priority.ErrOutcomeUnknown, true
	case 2:
		f.Class = priority.ErrOutcomeUnknown
	case 3:
		f.Class, f.Customer = priority.ErrCorruptCount, fmt.Sprint(random.IntN(3))
	case 4:
		f.Class, f.Delay = priority.ErrOutcomeUnknown, 100
		if random.IntN(2) == 0 {
			f.Class = nil
		}
	case 5:
		f.Slow, f.Delay = true, time.Duration(1+random.IntN(60))
	}
	switch random.IntN(5) {
	case 0, 1:
		f.Customer = fmt.Sprint(random.IntN(3))
	case 2:
		if !f.Slow {
			f.Calls = 1 + random.IntN(3)
		}
	}
	return f
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
		r.decide(s.caller, Submit, []entry{{customer: customer, document: documents[0]}}, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return one(store.Submit(ctx, customer, documents[0]))
		})
	case SubmitN:
		for _, document := range documents {
			entries = append(entries, entry{customer: customer, document: document})
		}
		r.decide(s.caller, SubmitN, entries, func(ctx context.Context, store priority.Store) ([]priority.Decision, error) {
			return store.SubmitN(ctx, customer, documents)
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
		r.heal() // of several that fail, a call would have to wait for each
		r.observeAll()
	}
	r.failing = at
	r.note(r.now(), "fail %s", f.describe())
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
	if len(r.active) > 0 { // what retries in an outage takes time of the test
		d = min(d, longestOutage)
	}
	return d
}

func (f *Fault) describe() string {
	text := "not counted"
	switch {
	case f.Slow:
		text = "slow"
	case f.Class == priority.ErrCorruptCount:
		text = "corrupt"
	case f.Counted:
		text = "unknown, counted"
	case f.Class == priority.ErrOutcomeUnknown:
		text = "unknown, lost"
	}
	if f.Delay > 0 {
		text += fmt.Sprint(", after ", f.Delay)
	}
	if f.Customer != "" {
		text += fmt.Sprintf(", for %q", f.Customer)
	}
	if f.Calls > 0 {
		text += fmt.Sprintf(", %d calls", f.Calls)
	}
	if len(f.Operations) > 0 {
		text += fmt.Sprint(", ", f.Operations)
	}
	return text
}
