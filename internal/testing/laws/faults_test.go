package laws

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/prioritytest"
)

// While calls fail, what a customer has in the fleet is known within bounds. They settle
// with each look at the fleet. All steps of a sequence fit into one lease and one
// interval, so nothing here depends on time.

// account is what the fleet may have of a customer.
type account struct {
	customer string
	counted  int     // documents by the count
	recent   float64 // documents that were submitted
	docs     map[string]doc
	doneAt   time.Duration // the last Done that failed
	second   second
	others   bool // another process did something since the last Reset
}

// doc says whether a document may be pending, and whether it may not be.
type doc struct {
	in, out bool
	level   priority.Level // if it is pending, as far as it is known
	coming  bool           // a Done of it may still arrive
	ends    bool           // and must do so when the outage is over
}

// second is what the store that answers in an outage may have of a customer.
type second struct {
	count   int64 // of its last decision by the count
	has     bool
	sure    bool                      // it still has: no outage of all ends, which lets it forget
	submits int64                     // at most
	pending map[string]priority.Level // may be pending
}

// change is what a call may have changed in the fleet.
type change struct {
	counted, submitted bounds
	reset, kept        bool // the customer was reset, or may not have been
}

type bounds struct{ least, most int }

func (b *bounds) add(least, most int) { b.least, b.most = b.least+least, b.most+most }

func (a *account) pending() (p bounds) {
	for _, d := range a.docs {
		switch {
		case d.in && !d.out:
			p.add(1, 1)
		case d.in:
			p.add(0, 1)
		}
	}
	return p
}

// book holds the accounts of a run.
type book struct {
	*run
	accounts map[string]*account
	away     bool // everything failed, and no document was counted since
}

func newBook(r *run) *book {
	b := &book{run: r, accounts: make(map[string]*account)}
	for _, customer := range customers {
		b.accounts[customer] = &account{customer: customer, docs: make(map[string]doc)}
	}
	return b
}

// faulty does the steps, ends the last fault, and checks that all is as before after it, and
// nothing pending after a lease.
func (r *run) faulty(steps []step) {
	b := newBook(r)
	for _, s := range steps {
		b.step(s)
	}
	b.step(heals)
	b.step(recovers)
	for _, customer := range customers {
		for _, operation := range []prioritytest.Operation{prioritytest.Next, prioritytest.Submit} {
			b.step(step{call: &call{operation: operation, customers: []string{customer}, documents: []string{"last"}}})
		}
	}
	b.pass(lease + time.Millisecond)
	for _, customer := range customers {
		if state := b.peek(customer); state.Pending > 0 {
			broken(4, "a lease after all, %q has %s", customer, describe(state))
		}
	}
}

func (b *book) step(s step) {
	switch {
	case s.call != nil:
		b.judge(s.caller, s.call, b.call(s.caller, s.call))
		time.Sleep(time.Millisecond) // what comes within one is not known to be later than a Done
		return
	case s.fault != nil:
		fault := *s.fault
		if fault.Customer == "" {
			b.away = true
			for _, a := range b.accounts {
				a.second.sure = false
			}
		}
		if b.fail(fault); fault.Class == priority.ErrCorrupt {
			for _, a := range b.accounts {
				for id, d := range a.docs { // a Done that it fails is not sent again
					d.ends = d.ends && !b.concerns(a.customer)
					a.docs[id] = d
				}
			}
		}
	case s.heal:
		b.heal()
	default:
		d := s.amount
		if s.wait == forRecovery {
			d = b.recovery + time.Millisecond
		}
		b.note("wait %v", d)
		b.pass(d)
	}
	for _, customer := range customers {
		b.settle(b.accounts[customer], change{})
	}
}

// judge checks what a call returned, and then what it changed.
func (b *book) judge(c caller, what *call, got answer) {
	changes := make(map[string]change)
	for i, d := range got.decisions {
		if got.errs[i] == nil && !d.Degraded && !c.other { // the fleet answers again: what was counted without it is forgotten
			b.accounts[what.customer(i)].second = second{}
			b.away = b.concerns("")
		}
	}
	for i, err := range got.errs {
		a := b.accounts[what.customer(i)]
		var d priority.Decision
		if i < len(got.decisions) && err == nil {
			d = got.decisions[i]
		}
		degraded := d.Degraded || what.operation == prioritytest.Peek && got.state.Degraded
		if err != nil || degraded {
			b.excuse(c, a, what, err)
		}
		made := changes[a.customer]
		switch what.operation {
		case prioritytest.Next, prioritytest.NextN, prioritytest.NextEach:
			b.next(a, d, err, &made.counted)
		case prioritytest.Submit, prioritytest.SubmitN:
			b.submit(c, a, what.documents[i], d, err, &made.submitted, len(got.errs))
		case prioritytest.Done, prioritytest.DoneN:
			b.done(c, a, what.documents[i], got.ended[i], err)
		case prioritytest.Peek:
			if errors.Is(err, priority.ErrOutcomeUnknown) {
				broken(1, "a Peek counts nothing, but its outcome is unknown: %v", err)
			}
		case prioritytest.Reset:
			made.reset, made.kept = err == nil || errors.Is(err, priority.ErrOutcomeUnknown), err != nil
			for id, d := range a.docs {
				if a.docs[id] = (doc{in: made.kept && d.in, out: made.reset || d.out, level: d.level, coming: d.coming, ends: made.kept && d.ends}); err == nil && !c.other {
					delete(a.docs, id)
				}
			}
			if !c.other {
				a.second = second{submits: a.second.submits}
			}
		}
		changes[a.customer] = made
		a.others = c.other || a.others && !made.reset
	}
	for customer, made := range changes {
		b.settle(b.accounts[customer], made)
	}
}

// excuse checks that there is a reason why the fleet did not answer.
func (b *book) excuse(c caller, a *account, what *call, err error) {
	switch {
	case c.other:
		broken(1, "%v of another process fails: %v", what, err)
	case errors.Is(err, priority.ErrCorrupt) && !b.corrupt(a):
		broken(6, "what %q has is not corrupt: %v", a.customer, err)
	case c.ended, c.patience > 0, b.excused(a.customer):
	case b.concerns(what.customers...) && b.fault.Delay >= timeout: // they share a connection
	case b.fault != nil:
		broken(6, "only others have trouble, and the fleet does not answer %v for %q: %v", what, a.customer, err)
	default:
		broken(4, "the trouble is over, and the fleet does not answer %v for %q: %v", what, a.customer, err)
	}
}

// mayArrive reports whether what failed may have reached the fleet all the same.
func (b *book) mayArrive(a *account, err error) bool {
	return errors.Is(err, priority.ErrOutcomeUnknown) || err == nil && b.concerns(a.customer) && (b.fault.Class == priority.ErrOutcomeUnknown || b.fault.Slow)
}

// next judges a document by the count.
func (b *book) next(a *account, d priority.Decision, err error, counted *bounds) {
	switch {
	case err == nil && !d.Degraded:
		if counted.add(1, 1); d.Count > 1-int64(counted.least) || d.Count < 1-int64(a.counted+counted.most) {
			broken(b.lawOf(a), "%q had %d documents; the count cannot be %d", a.customer, a.counted, d.Count)
		}
	case b.mayArrive(a, err), b.fault != nil && !b.concerns(a.customer): // a reply may wait behind another customer's
		counted.add(0, 1)
	}
	if err != nil {
		return
	}
	if level := b.store.PolicyOf(a.customer).Level(d.Count); d.Level != level || d.Load != 0 || d.Pending != 0 {
		broken(1, "count %d is level %d, not %+v", d.Count, level, d)
	}
	if d.Degraded {
		goesOn := a.second.has && d.Count == a.second.count-1
		if !goesOn && (d.Count != 0 || a.second.sure) {
			broken(4, "the degraded count of %q was %d in this outage, and cannot be %d", a.customer, a.second.count, d.Count)
		}
		a.second.count, a.second.has, a.second.sure = d.Count, true, !b.away
	}
}

// submit judges one of some documents by the load.
func (b *book) submit(c caller, a *account, id string, d priority.Decision, err error, submitted *bounds, some int) {
	held, known := a.docs[id]
	if !known {
		held.out = true
	}
	arrives, had := b.mayArrive(a, err), held
	least, most := 0, 0
	if held.out {
		most = 1
	}
	if !held.in {
		least = 1
	}
	switch {
	case err == nil && !d.Degraded:
		submitted.add(least, most)
		// A Done that is on its way from another process may end it; the process's own not.
		a.docs[id] = doc{in: true, level: d.Level, out: held.coming && c.other, coming: held.coming && c.other}
		pending, recent := a.pending(), a.recent+float64(submitted.most)
		if arrives { // it was sent again, and the others of the call had arrived
			pending.most += some
			recent += float64(some)
		}
		if d.Pending < int64(pending.least) || d.Pending > int64(pending.most) || d.Load > (recent+.1)*float64(d.Pending) {
			broken(4, "%q had %.3f recent and %d to %d documents pending with this one, not %+v", a.customer, a.recent, pending.least, pending.most, d)
		}
	case arrives:
		submitted.add(0, most)
		held.in, held.ends = true, false
		if held.out {
			held.level = 0
		}
		a.docs[id] = held
	}
	if err != nil {
		return
	}
	if d.Degraded {
		had = doc{out: true}
		had.level, had.in = a.second.pending[id]
	}
	policy := b.store.PolicyOf(a.customer)
	earliest, latest := policy.LevelOfLoad(d.Load, 0), policy.LevelOfLoad(d.Load, d.Pending)
	if arrives && !d.Degraded { // it was sent again, and has the level that it got before others of the call arrived
		earliest = priority.First
	}
	isOfLoad := d.Level >= earliest && d.Level <= latest
	if keeps := had.in && (had.level == 0 || had.level == d.Level); d.Count != 0 || !keeps && (had.in && !had.out || !isOfLoad) {
		broken(4, "it has neither the level that it had, %d if it is pending, nor that of its load, %d to %d: %+v", had.level, earliest, latest, d)
	}
	if !d.Degraded {
		return
	}
	if a.second.pending == nil {
		a.second.pending = make(map[string]priority.Level)
	}
	a.second.pending[id] = d.Level
	if a.second.submits++; d.Pending < 1 || d.Pending > a.second.submits || d.Load > float64(a.second.submits*d.Pending) {
		broken(4, "%d documents were submitted in this outage, and it is %+v", a.second.submits, d)
	}
}

// done judges the Done of a document. Its end is reported by the fleet, or by the store that
// answered in an outage; in an outage the report may be lost.
func (b *book) done(c caller, a *account, id string, ended priority.Ended, err error) {
	held := a.docs[id]
	_, second := a.second.pending[id]
	second = second && !c.other
	if !c.other && err == nil {
		delete(a.second.pending, id)
	}
	if reported := ended.Level > 0; reported {
		if err != nil || !held.in && !second {
			broken(1, "the end of %q of %q, which may be pending in the fleet: %v, elsewhere: %v, is reported: %+v, %v", id, a.customer, held.in, second, ended, err)
		}
		held.in = held.in && second
	} else if err == nil && held.in && !held.out && (c.other || !b.excused(a.customer)) {
		broken(1, "the end of %q of %q is not reported", id, a.customer)
	}
	switch {
	case err != nil: // it may always be sent again, and so arrive even now
		a.docs[id], a.doneAt = doc{in: held.in, out: true, level: held.level, coming: true}, b.now()
	case !c.other && b.excused(a.customer):
		a.docs[id] = doc{in: held.in, out: true, level: held.level, coming: true, ends: !b.corrupt(a)}
	default:
		a.docs[id] = doc{out: true, coming: held.coming && c.other}
	}
}

// corrupt reports whether a customer's keys are corrupt: only a Reset helps then.
func (b *book) corrupt(a *account) bool {
	return b.concerns(a.customer) && b.fault.Class == priority.ErrCorrupt
}

// lawOf is the law that is broken if the fleet has other numbers than it should.
func (b *book) lawOf(a *account) int {
	if a.others {
		return 5
	}
	return 1
}

// settle looks at what the fleet has of a customer, and checks that it can be so.
func (b *book) settle(a *account, made change) {
	state := b.peek(a.customer)
	if b.fault == nil && b.now() > max(a.doneAt, b.troubled)+b.recovery { // all Dones have arrived that could
		for id, d := range a.docs {
			if d.coming = false; d.ends {
				d = doc{out: true}
			}
			a.docs[id] = d
		}
	}
	counted, pending := 0, a.pending()
	if state.ResetIn > 0 {
		counted = int(1 - state.Count)
	}
	was := *a
	impossible := func(law int) {
		broken(law, "%q had %d counted, %.3f recent and %d to %d pending, which %+v changed; the fleet cannot have\n    %s",
			a.customer, was.counted, was.recent, pending.least, pending.most, made, describe(state))
	}
	within := func(got, had float64, more bounds, slack float64) bool {
		keeps := got >= had+float64(more.least)-slack && got <= had+float64(more.most)+slack
		return (!made.reset || made.kept) && keeps || made.reset && got == 0
	}
	if !within(float64(counted), float64(a.counted), made.counted, 0) {
		impossible(b.lawOf(a))
	}
	// What fades of it in a few minutes is little.
	if !within(state.Recent, a.recent, made.submitted, .01*(a.recent+1)) {
		impossible(b.lawOf(a))
	}
	if state.Pending < int64(pending.least) || state.Pending > int64(pending.most) {
		impossible(4)
	}
	a.counted, a.recent = counted, state.Recent
	for id, d := range a.docs {
		switch {
		case state.Pending == int64(pending.least):
			d.in = d.in && !d.out
		case state.Pending == int64(pending.most) && d.in && !d.coming:
			d.out = false
		}
		a.docs[id] = d
	}
}

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
