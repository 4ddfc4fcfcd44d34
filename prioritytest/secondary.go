package prioritytest

import (
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// secondAccount is what the model knows of a customer in the store that answers while
// the fleet cannot be reached. Nobody can ask that one: what it counted is known from
// its decisions.
type secondAccount struct {
	has            bool
	count          int64
	low, high      time.Duration // of the time until which the count lives
	known          bool          // has and count are so
	maybeForgotten bool          // or it may know nothing
	attempts       int64         // documents that it may ever have counted
	docs           map[string]lease
}

func (r *run) secondAccount(customer string) *secondAccount {
	a := r.secondary[customer]
	if a == nil {
		a = &secondAccount{known: true, docs: make(map[string]lease)}
		r.secondary[customer] = a
	}
	return a
}

// mayForget notes that what answers in an outage may have forgotten what it counted,
// unless nothing at all has worked since.
func (r *run) mayForget() {
	if slices.ContainsFunc(r.active, func(f Fault) bool {
		return f.Customer == "" && f.Calls == 0 && len(f.Operations) == 0 && !f.Slow
	}) {
		return
	}
	for _, a := range r.secondary {
		a.maybeForgotten = true
	}
}

// forgotten notes that the fleet decided for a customer: what answered instead may
// have forgotten what it counted, and of this customer it has, if all is well.
func (r *run) forgotten(customer string) {
	for _, a := range r.secondary {
		a.maybeForgotten = true
	}
	if len(r.active) == 0 {
		delete(r.secondary, customer)
	}
}

// judgeDegraded checks the decision of a store that answers while the fleet cannot be
// reached: it counts each document once, and knows of no others.
func (r *run) judgeDegraded(a *account, e entry, s span, lease time.Duration) {
	second := r.secondAccount(e.customer)
	second.attempts++
	d := e.decision
	fresh := !second.has || second.low < s.to || second.maybeForgotten || !second.known
	live := second.has && second.high >= s.from || !second.known
	least, most := 1, 1
	if e.document != "" {
		least, most = counts(find(second.docs, e.document), s)
		if second.maybeForgotten || !second.known {
			most = 1
		}
	}
	right := fresh && d.Count == 0
	for n := least; n <= most; n++ {
		right = right || live && second.known && d.Count == second.count-int64(n)
	}
	right = right || !second.known && d.Count <= 0 && d.Count > -second.attempts
	if !right {
		r.broken(1, "the degraded count of %q was %d and cannot be %d then", e.customer, second.count, d.Count)
	}
	if (e.document != "") != (d.Pending > 0) {
		r.broken(1, "%d documents are pending after this one", d.Pending)
	}
	r.judgeLevel(a.policy, d, e.document != "")
	low, high := s.from+a.policy.ResetInterval, s.to+a.policy.ResetInterval
	switch {
	case d.Count == 0 && least == 1, a.policy.ResetMode == priority.SinceLastUpdate && least == 1:
		second.low, second.high = low, high
	case !second.has:
		second.low, second.high = min(s.from, low), high
	case least == 0: // perhaps it was pending, and nothing was counted
		second.low, second.high = min(second.low, low), max(second.high, high)
	}
	if second.maybeForgotten && d.Count == 0 {
		for document, l := range second.docs {
			second.docs[document] = leaseUntil(never, l.maybe)
		}
	}
	second.has, second.count, second.known, second.maybeForgotten = true, d.Count, true, false
	if e.document != "" {
		second.docs[e.document] = leaseUntil(s.from+certain(lease), s.to+lease)
	}
}
