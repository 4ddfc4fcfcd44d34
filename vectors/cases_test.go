package vectors_test

import "github.com/docpriority/priority/internal/vectors"

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

// of makes a set one of another key than the count's: "pending" or "usage".
func (s step) of(key string) step {
	s.Key = key
	return s
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

func stepsOf(steps []step) (all []vectors.Step) {
	for _, s := range steps {
		all = append(all, vectors.Step(s))
	}
	return all
}

// inBothModes makes cases that differ in the reset mode.
func inBothModes(cases func(add adder)) (all []vectors.Case) {
	for _, mode := range []string{sinceLastUpdate, sinceLastReset} {
		cases(func(name string, policy vectors.Policy, lease int64, steps ...step) {
			policy.Mode = mode
			all = append(all, vectors.Case{Name: name + ", " + mode, Policy: policy, Lease: lease, Steps: stepsOf(steps)})
		})
	}
	return all
}

// ruleCases are the cases of rule.json, without what they want.
func ruleCases() []vectors.Case {
	return inBothModes(func(add adder) {
		add("a new customer's first documents, a second apart", standard, 0, each(30, 1000, func(_ int, at int64) step { return next(at, "acme", 1) })...)
		add("exactly the interval is not more than the interval", standard, 0,
			next(0, "acme", 1), next(interval, "acme", 1), next(2*interval, "acme", 1), next(2*interval+1, "acme", 1),
			next(3*interval+1, "acme", 1), next(3*interval+2, "acme", 1), next(5*interval, "acme", 1))
		add("one millisecond more is", standard, 0,
			next(0, "acme", 4), next(interval+1, "acme", 1), next(2*interval+2, "acme", 1), next(2*interval+3, "acme", 1))
		add("a steady customer who never pauses for the interval", standard, 0,
			each(12, 500_000, func(_ int, at int64) step { return next(at, "acme", 2) })...)
		add("many documents at once", standard, 0,
			next(0, "acme", 30), next(1, "acme", 1), next(2, "other", 3), next(3, "other", 5),
			next(interval+1, "acme", 2), next(2*interval+2, "acme", 5))
		add("customers do not meet", standard, 0,
			next(0, "acme", 10), next(1, "Acme", 1), next(2, "acme ", 1), next(3, "acme", 1), next(4, "Acme", 1))
		add("a peek counts nothing and renews nothing", standard, 0,
			peek(0, "acme"), next(0, "acme", 5), peek(0, "acme"), peek(1000, "acme"), peek(interval, "acme"),
			peek(interval+1, "acme"), next(interval+1, "acme", 1), peek(interval+1, "acme"))
		add("a reset forgets", standard, 0,
			reset(0, "acme"), next(1, "acme", 22), next(1, "other", 1), reset(2, "acme"), peek(3, "acme"),
			next(4, "acme", 1), next(5, "acme", 1), next(6, "other", 1), next(interval+4, "acme", 1), next(interval+5, "acme", 1))
		add("a table and an interval of its own", vectors.Policy{Thresholds: []int64{-1, -3}, Interval: 60_000}, 0,
			next(0, "acme", 6), next(60_000, "acme", 1), next(120_001, "acme", 1))
		add("one level", vectors.Policy{Thresholds: []int64{}, Interval: 1000}, 0,
			next(0, "acme", 3), next(1000, "acme", 1), next(2001, "acme", 1))
		add("thresholds above zero", vectors.Policy{Thresholds: []int64{5, 1, 0, -1}, Interval: 1000}, 0,
			peek(0, "acme"), next(0, "acme", 3), next(2000, "acme", 1))
		add("the shortest interval", vectors.Policy{Thresholds: []int64{-1}, Interval: 1}, 0,
			next(0, "acme", 3), next(1, "acme", 1), next(3, "acme", 1), next(9, "acme", 1))
		var many []int64
		for i := range int64(40) {
			many = append(many, -i)
		}
		add("forty-one levels", vectors.Policy{Thresholds: many, Interval: 86_400_000}, 0,
			next(0, "acme", 45), next(86_400_000, "acme", 1), next(2*86_400_000+1, "acme", 1))
	})
}
