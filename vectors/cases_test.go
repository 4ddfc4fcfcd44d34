package vectors_test

import (
	"cmp"

	"github.com/docpriority/priority/internal/vectors"
)

type step vectors.Step

const (
	sinceLastUpdate = "since_last_update"
	sinceLastReset  = "since_last_reset"

	// In milliseconds. interval and lease are the defaults.
	second   = int64(1000)
	minute   = 60 * second
	hour     = 60 * minute
	day      = 24 * hour
	interval = 1500 * second
	lease    = day

	// dearest is the greatest cost of a Done.
	dearest = 100_000
)

// standard is the default policy written out, but for its loads. With narrow the last
// level is near, and with turning there are levels behind it.
var (
	standard = vectors.Policy{Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20}, Interval: interval}
	narrow   = loaded(0, 2, 8, 32)
	turning  = loaded(3, 2, 8, 32)
)

// loaded returns the default policy with a table and turns by load.
func loaded(turns int, loads ...float64) vectors.Policy {
	policy := standard
	policy.Loads, policy.Turns = loads, turns // no loads are the default's, and empty ones are one level
	return policy
}

// Makers of steps.

func next(at int64, customer string, n int) step {
	return step{At: at, Do: "next", Customer: customer, N: &n}
}

func submit(at int64, customer string, documents ...string) step {
	return step{At: at, Do: "submit", Customer: customer, Documents: documents}
}

func done(at int64, customer string, documents ...string) step {
	return step{At: at, Do: "done", Customer: customer, Documents: documents}
}

func peek(at int64, customer string) step {
	return step{At: at, Do: "peek", Customer: customer}
}

func reset(at int64, customer string) step {
	return step{At: at, Do: "reset", Customer: customer}
}

// set is what another program did: ttl is 0 for none.
func set(at int64, customer, value string, ttl int64) step {
	return step{At: at, Do: "set", Customer: customer, Value: &value, TTL: ttl}
}

// cost is how long a document of a Done was worked on, in thousandths of the average.
func (s step) cost(thousandths int64) step {
	s.Cost = thousandths
	return s
}

// costing are the costs of the documents of a Submit, in thousandths of the average; 0
// is not known.
func (s step) costing(thousandths ...int64) step {
	s.Costs = thousandths
	return s
}

// leased is a step of a process with another lease.
func (s step) leased(lease int64) step {
	s.Lease = lease
	return s
}

// each makes n steps, some milliseconds apart.
func each(n int, apart int64, one func(i int, at int64) step) []step {
	var steps []step
	for i := range n {
		steps = append(steps, one(i, int64(i)*apart))
	}
	return steps
}

// adder adds a case to a file.
type adder func(name string, policy vectors.Policy, lease int64, steps ...step)

// addTo returns the adder of a list.
func addTo(cases *[]vectors.Case) adder {
	return func(name string, policy vectors.Policy, lease int64, steps ...step) {
		policy.Mode = cmp.Or(policy.Mode, sinceLastUpdate)
		c := vectors.Case{Name: name, Policy: policy, Lease: lease}
		for _, s := range steps {
			c.Steps = append(c.Steps, vectors.Step(s))
		}
		*cases = append(*cases, c)
	}
}

// ruleCases are the cases of rule.json, without what they want.
func ruleCases() (cases []vectors.Case) {
	add := addTo(&cases)
	for _, mode := range []string{sinceLastUpdate, sinceLastReset} {
		policy := standard
		policy.Mode = mode
		add("exactly the interval is not more than the interval, "+mode, policy, 0,
			next(0, "acme", 1), next(interval, "acme", 1), next(2*interval, "acme", 1), next(2*interval+1, "acme", 1),
			next(3*interval+1, "acme", 1), next(3*interval+2, "acme", 1), next(5*interval, "acme", 1))
		add("a steady customer who never pauses for the interval, "+mode, policy, 0,
			each(12, 500_000, func(_ int, at int64) step { return next(at, "acme", 2) })...)
		add("a peek counts nothing and renews nothing, "+mode, policy, 0,
			peek(0, "acme"), next(0, "acme", 5), peek(1000, "acme"), peek(interval, "acme"), peek(interval+1, "acme"), next(interval+1, "acme", 1))
	}
	add("a new customer's first documents, a second apart", standard, 0, each(30, 1000, func(_ int, at int64) step { return next(at, "acme", 1) })...)
	add("many documents at once", standard, 0,
		next(0, "acme", 30), next(1, "acme", 1), next(2, "other", 3), next(3, "other", 5), next(interval+1, "acme", 2), next(2*interval+2, "acme", 5))
	add("customers do not meet", standard, 0, next(0, "acme", 10), next(1, "Acme", 1), next(2, "acme ", 1), next(3, "acme", 1))
	add("a reset forgets", standard, 0,
		reset(0, "acme"), next(1, "acme", 22), next(1, "other", 1), reset(2, "acme"), peek(3, "acme"), next(4, "acme", 1), next(6, "other", 1))
	add("another table and interval", vectors.Policy{Thresholds: []int64{-1, -3}, Interval: 60_000}, 0,
		next(0, "acme", 6), next(60_000, "acme", 1), next(120_001, "acme", 1))
	add("one level", vectors.Policy{Thresholds: []int64{}, Interval: 1000}, 0, next(0, "acme", 3), next(2001, "acme", 1))
	add("thresholds above zero", vectors.Policy{Thresholds: []int64{5, 1, 0, -1}, Interval: 1000}, 0, peek(0, "acme"), next(0, "acme", 3), next(2000, "acme", 1))
	return cases
}

// edgeCases are the cases of edges.json, without what they want: what operators, other
// programs, and processes with other leases leave in the keys.
func edgeCases() (cases []vectors.Case) {
	add := addTo(&cases)
	override := func(at int64, value string, ttl int64) step {
		s := set(at, "acme", value, ttl)
		s.Key = "override"
		return s
	}

	for _, value := range []string{"=1", "=9", "=200", ">=7", "<=3 by ann: a trial", "<=99"} {
		add("an override: "+value, standard, lease,
			override(0, value, day), peek(0, "acme"), next(0, "acme", 1), next(1, "acme", 2), next(2, "acme", 30), peek(2, "acme"),
			next(2, "other", 1), submit(3, "acme", "a", "b"), submit(5, "acme", batch("d", 60)...), submit(6, "acme", "a"),
			peek(7, "acme"), done(second, "acme", "a", "d-60"), reset(2*second, "acme"), next(3*second, "acme", 1), peek(3*second, "acme"))
	}
	for _, value := range []string{"", "=0", "5", "= 1", "=1000", "=1,"} {
		add("no override: "+value, standard, lease, override(0, value, 0), next(0, "acme", 3), submit(3, "acme", "a"), peek(4, "acme"))
	}
	add("an override ends", standard, lease,
		next(0, "acme", 22), submit(0, "acme", batch("a", 40)...), override(0, "=1", hour), next(1, "acme", 1), submit(2, "acme", "b"),
		peek(hour-minute, "acme"), next(hour+minute, "acme", 1), submit(hour+minute, "acme", "d"), peek(hour+minute, "acme"))
	add("an override has no end", standard, lease, override(0, "<=2", 0), next(0, "acme", 30), peek(0, "acme"), next(9*day, "acme", 1), peek(9*day, "acme"))
	add("an override behind turns", loaded(5, 2, 8, 32), lease,
		override(0, ">=6", 0), submit(0, "acme", batch("a", 40)...), peek(1, "acme"), override(2, "<=2", 0), submit(3, "acme", "b"), submit(4, "acme", "a-40"),
		peek(5, "acme"))
	add("an override in a queue of three levels", vectors.Policy{Thresholds: []int64{-2, -4}, Interval: interval}, lease,
		override(0, "=9", 0), next(0, "acme", 1), submit(0, "acme", "a"), peek(1, "acme"), override(2, ">=2", 0), next(2, "acme", 7), peek(2, "acme"))

	add("a count with a TTL longer than the interval, and without one", standard, lease,
		set(0, "acme", "-4", 2*interval), next(0, "acme", 1), next(1000, "acme", 1), set(0, "other", "-4", 0), next(1000, "other", 1), peek(2000, "other"))
	const short, long = minute, 15 * minute
	add("a shorter lease shortens no other", standard, long,
		submit(0, "acme", "a"), submit(second, "acme", "b").leased(short), peek(40*second, "acme"), peek(90*second, "acme").leased(short),
		peek(90*second, "acme"), submit(91*second, "acme", "a").leased(short), done(93*second, "acme", "b").leased(short), peek(94*second, "acme"))
	add("a longer lease lengthens no other", standard, short,
		submit(0, "acme", "a").leased(long), submit(second, "acme", "b"), peek(90*second, "acme"), peek(90*second, "acme").leased(long),
		submit(91*second, "acme", "c"), submit(92*second, "acme", "b").leased(long))
	return cases
}
