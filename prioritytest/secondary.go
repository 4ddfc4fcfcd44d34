package prioritytest

import (
	"slices"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/fair"
)

// secondAccount is what the model knows about a customer in the store that answers
// while the fleet cannot be reached. That store cannot be peeked: only its decisions
// show what it counted.
type secondAccount struct {
	has            bool
	count          int64
	low, high      time.Duration // of the time until which the count lives
	known          bool          // has and count are known
	maybeForgotten bool          // the store may know nothing
	attempts       int64         // documents that it may ever have counted
	submits        int64         // of these, documents that were submitted
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

// mayForget records that the secondary may have forgotten what it counted, unless
// nothing has worked since.
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

// forgotten records that the fleet decided for a customer: the secondary may have
// forgotten what it counted, and if all is well it has forgotten this customer.
func (r *run) forgotten(customer string) {
	for _, a := range r.secondary {
		a.maybeForgotten = true
	}
	if len(r.active) == 0 {
		delete(r.secondary, customer)
	}
}

// judgeDegradedCount checks the decision by the count of a store that answers while the
// fleet cannot be reached: it counts each document once, and knows no others.
func (r *run) judgeDegradedCount(a *account, e entry, s span) {
	second := r.secondAccount(e.customer)
	second.attempts++
	d := e.decision
	fresh := !second.has || second.low < s.to || second.maybeForgotten || !second.known
	live := second.has && second.high >= s.from || !second.known
	right := fresh && d.Count == 0 || live && second.known && d.Count == second.count-1 ||
		!second.known && d.Count <= 0 && d.Count > -second.attempts
	if !right {
		r.broken(1, "the degraded count of %q was %d and cannot be %d then", e.customer, second.count, d.Count)
	}
	r.judgeCount(a.policy, d)
	if d.Count == 0 || a.policy.ResetMode == priority.SinceLastUpdate || !second.has {
		second.low, second.high = s.from+a.policy.ResetInterval, s.to+a.policy.ResetInterval
	}
	if second.maybeForgotten && d.Count == 0 {
		second.forgetDocuments()
	}
	second.has, second.count, second.known, second.maybeForgotten = true, d.Count, true, false
}

// judgeDegradedLoad checks a decision by the load in the same way.
func (r *run) judgeDegradedLoad(a *account, e entry, s span, length time.Duration) {
	second := r.secondAccount(e.customer)
	second.submits++
	d := e.decision
	if d.Pending < 1 || d.Pending > second.submits {
		r.broken(1, "%d documents of %d are pending after this one", d.Pending, second.submits)
	}
	cost := costsOf(e)
	lately := 1000 * min(second.submits, mostLately)
	if load, high := fair.Millionths(d.Load), loadOf(lately, d.Pending, cost.most); load < loadOf(500, 1, cost.least) || load > high {
		r.broken(1, "the degraded load of %q is %v, more than %v or too little", e.document, d.Load, float64(high)/1e6)
	}
	r.judgeLevel(a.policy, d, bounds{1, d.Pending})
	second.docs[e.document] = lease{sure: early(s.from + certain(length)), maybe: late(s.to + length), from: s.from, to: s.to, level: d.Level}
}

func (a *secondAccount) forgetDocuments() {
	for document, l := range a.docs {
		l.sure = never
		a.docs[document] = l
	}
}
