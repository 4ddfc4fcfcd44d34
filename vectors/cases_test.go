package vectors_test

import (
	"strconv"

	"github.com/docpriority/priority"
)

const (
	sinceLastUpdate = "since_last_update"
	sinceLastReset  = "since_last_reset"

	// interval and lease are the defaults, in milliseconds.
	interval = 1_500_000
	lease    = 180_000
)

// standard is the default policy written out.
var standard = policyOf{Thresholds: []int64{-2, -4, -6, -8, -10, -12, -14, -20}, Interval: interval}

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

func settle(at int64, customer string, n int, known int64) step {
	return step{At: at, Do: "settle", Customer: customer, N: &n, Known: &known}
}

func peek(at int64, customer string) step {
	return step{At: at, Do: "peek", Customer: customer}
}

func reset(at int64, customer string) step {
	return step{At: at, Do: "reset", Customer: customer}
}

// set is what another program did: ttl is 0 for none.
func set(at int64, customer, value string, ttl int64) step {
	return step{At: at, Do: "set", Customer: customer, Value: value, TTL: ttl}
}

// leased is a step of a process with another lease.
func (s step) leased(lease int64) step {
	s.Lease = lease
	return s
}

// fails is a step that changes nothing.
func (s step) fails() step {
	s.Error = "CORRUPTCOUNT"
	return s
}

// wants is what a step of edges.json comes to.
func (s step) wants(level priority.Level, count, pending, resetIn int64) step {
	s.Want = append(s.Want, decision{Level: level, Count: count, Pending: &pending, ResetIn: resetIn})
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

// inBothModes makes cases that differ in the reset mode.
func inBothModes(cases func(add func(name string, policy policyOf, lease int64, steps ...step), mode string)) (all []vector) {
	for _, mode := range []string{sinceLastUpdate, sinceLastReset} {
		cases(func(name string, policy policyOf, lease int64, steps ...step) {
			policy.Mode = mode
			all = append(all, vector{Name: name + ", " + mode, Policy: policy, Lease: lease, Steps: steps})
		}, mode)
	}
	return all
}

// ruleCases are those of rule.json, without what they want.
func ruleCases() []vector {
	return inBothModes(func(add func(string, policyOf, int64, ...step), _ string) {
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
		add("a table and an interval of its own", policyOf{Thresholds: []int64{-1, -3}, Interval: 60_000}, 0,
			next(0, "acme", 6), next(60_000, "acme", 1), next(120_001, "acme", 1))
		add("one level", policyOf{Thresholds: []int64{}, Interval: 1000}, 0,
			next(0, "acme", 3), next(1000, "acme", 1), next(2001, "acme", 1))
		add("thresholds above zero", policyOf{Thresholds: []int64{5, 1, 0, -1}, Interval: 1000}, 0,
			peek(0, "acme"), next(0, "acme", 3), next(2000, "acme", 1))
		add("the shortest interval", policyOf{Thresholds: []int64{-1}, Interval: 1}, 0,
			next(0, "acme", 3), next(1, "acme", 1), next(3, "acme", 1), next(9, "acme", 1))
		var many []int64
		for i := range int64(40) {
			many = append(many, -i)
		}
		add("forty-one levels", policyOf{Thresholds: many, Interval: 86_400_000}, 0,
			next(0, "acme", 45), next(86_400_000, "acme", 1), next(2*86_400_000+1, "acme", 1))
	})
}

// submitCases are those of submit.json, without what they want.
func submitCases() []vector {
	named := func(i int) string { return "invoice-" + strconv.Itoa(i+1) }
	return inBothModes(func(add func(string, policyOf, int64, ...step), _ string) {
		add("documents that nobody has done yet", standard, 900_000,
			each(26, 1000, func(i int, at int64) step { return submit(at, "acme", named(i)) })...)
		add("documents that are done at once: the mean of two levels", standard, 900_000,
			each(52, 1000, func(i int, at int64) step {
				if i%2 == 0 {
					return submit(at, "acme", named(i/2))
				}
				return done(at, "acme", named(i/2))
			})...)
		add("a peek tells the level of the last document, or of the count where nothing is pending", standard, 900_000,
			next(0, "acme", 30), peek(1, "acme"), submit(2, "acme", "a"), peek(3, "acme"), submit(4, "acme", "b", "c", "d"),
			peek(5, "acme"), done(6, "acme", "b", "c"), peek(7, "acme"), done(8, "acme", "a", "d"), peek(9, "acme"))
		add("a document that is delivered again counts nothing", standard, 900_000,
			submit(0, "acme", "a"), submit(1, "acme", "a"), submit(2, "acme", "a", "b", "a", "b"), peek(3, "acme"),
			done(4, "acme", "a"), submit(5, "acme", "a"), peek(6, "acme"))
		add("a lease ends later than exactly its length", standard, 60_000,
			submit(0, "acme", "a"), submit(1000, "acme", "b"), peek(60_000, "acme"), peek(60_001, "acme"),
			submit(61_000, "acme", "c"), peek(61_001, "acme"), peek(121_000, "acme"), peek(121_001, "acme"))
		add("a delivery renews the lease", standard, 60_000,
			submit(0, "acme", "a"), submit(0, "acme", "b"), submit(60_000, "acme", "a"), peek(60_001, "acme"),
			peek(120_000, "acme"), peek(120_001, "acme"), submit(120_001, "acme", "a"))
		add("done", standard, 900_000,
			done(0, "acme", "unknown"), submit(1, "acme", "a", "b", "c"), done(2, "acme", "b"), peek(3, "acme"),
			done(4, "acme", "b"), peek(5, "acme"), done(6, "acme", "a", "c", "a"), peek(7, "acme"), submit(8, "acme", "b"))
		add("customers do not meet", standard, 900_000,
			submit(0, "acme", "a", "b"), submit(1, "other", "a"), done(2, "other", "a"), peek(3, "acme"), peek(3, "other"))
		add("both ways of counting share the count", standard, lease,
			next(0, "acme", 3), submit(1, "acme", "a"), next(2, "acme", 2), submit(3, "acme", "b"), peek(4, "acme"))
		add("a reset forgets the count and the documents", standard, 900_000,
			submit(0, "acme", "a", "b", "c", "d"), reset(1, "acme"), peek(2, "acme"), submit(3, "acme", "a"), done(4, "acme", "b"), peek(5, "acme"))
		add("documents stay pending while the count is reset", policyOf{Thresholds: []int64{-1, -3}, Interval: 60_000}, 900_000,
			submit(0, "acme", "a", "b", "c", "d", "e"), peek(60_000, "acme"), peek(60_001, "acme"), submit(60_001, "acme", "a"),
			submit(60_002, "acme", "b", "f"), submit(120_002, "acme", "g"), submit(180_003, "acme", "h"))
		add("the count goes on while documents are forgotten", standard, 1000,
			submit(0, "acme", "a", "b", "c", "d", "e"), submit(1001, "acme", "a"), submit(interval, "acme", "b"), submit(2*interval+1, "acme", "c"))
	})
}

// settleCases are those of settle.json, without what they want.
func settleCases() []vector {
	return inBothModes(func(add func(string, policyOf, int64, ...step), _ string) {
		add("documents that were answered are counted", standard, 0,
			next(0, "acme", 22), settle(1000, "acme", 5, -21), peek(1000, "acme"), settle(2000, "acme", 1, -26), next(3000, "acme", 1))
		add("what others counted meanwhile is no reset", standard, 0,
			next(0, "acme", 22), next(500, "acme", 7), settle(1000, "acme", 5, -21), peek(1000, "acme"))
		add("not after a reset", standard, 0,
			next(0, "acme", 30), reset(1, "acme"), settle(2, "acme", 5, -29), peek(2, "acme"),
			next(3, "acme", 1), settle(4, "acme", 5, -29), peek(4, "acme"))
		add("not after the count has expired", standard, 0,
			next(0, "acme", 30), settle(interval+1, "acme", 5, -29), peek(interval+1, "acme"), next(interval+2, "acme", 1),
			settle(interval+3, "acme", 5, -29), next(interval+4, "acme", 1))
		add("exactly the interval later it has not", standard, 0,
			next(0, "acme", 30), settle(interval, "acme", 5, -29), peek(interval, "acme"), peek(interval+1, "acme"))
		add("not above what was known", standard, 0,
			next(0, "acme", 22), settle(1, "acme", 1, -22), settle(2, "acme", 1, -21), peek(3, "acme"))
	})
}

// The counts beside which the scripts stop: Lua compares numbers of up to 15 digits
// exactly.
const (
	tooLarge  = "1000000000000000"
	tooSmall  = "-1000000000000000"
	largest   = "999999999999999"
	beforeEnd = "-999999999999998"
)

// edgeCases are those of edges.json: keys as only other programs, or processes with
// other settings, leave them.
func edgeCases() []vector {
	return inBothModes(func(add func(string, policyOf, int64, ...step), mode string) {
		for _, value := range []string{tooLarge, tooSmall, "9223372036854775807", "-9223372036854775808", "many"} {
			add("no count: "+value, standard, lease,
				set(0, "acme", value, 1000), next(1, "acme", 1).fails(), next(2, "acme", 3).fails(), submit(3, "acme", "a").fails(),
				settle(4, "acme", 1, 0).fails(), peek(6, "acme").fails(),
				reset(7, "acme"), next(8, "acme", 1).wants(1, 0, 0, interval))
		}
		add("the largest count", standard, lease,
			set(0, "acme", largest, interval), peek(0, "acme").wants(1, 999999999999999, 0, interval),
			next(0, "acme", 1).wants(1, 999999999999998, 0, interval),
			set(0, "acme", largest, interval), submit(0, "acme", "a").wants(1, 999999999999998, 1, interval))
		add("the last count, by next", standard, lease,
			set(0, "acme", beforeEnd, interval), next(0, "acme", 2).fails(),
			next(0, "acme", 1).wants(9, -999999999999999, 0, interval),
			next(0, "acme", 1).fails(), next(0, "acme", 1_000_000).fails(), submit(0, "acme", "a").fails(),
			settle(0, "acme", 1, 0).fails(),
			peek(0, "acme").wants(9, -999999999999999, 0, interval))
		add("the last count, by submit", standard, lease,
			set(0, "acme", beforeEnd, interval), submit(0, "acme", "a", "b").fails(),
			submit(0, "acme", "a").wants(5, -999999999999999, 1, interval),
			submit(0, "acme", "b").fails(), submit(0, "acme", "a").wants(5, -999999999999999, 1, interval),
			peek(0, "acme").wants(5, -999999999999999, 1, interval))
		add("the last count, by settle", standard, lease,
			set(0, "acme", beforeEnd, interval), settle(0, "acme", 2, 0).fails(),
			settle(0, "acme", 1, 0).wants(9, -999999999999999, 0, interval), settle(0, "acme", 1, 0).fails())

		for _, way := range []struct {
			name   string
			counts func(at, resetIn int64) step
		}{
			{"next", func(at, resetIn int64) step { return next(at, "acme", 1).wants(3, -5, 0, resetIn) }},
			{"submit", func(at, resetIn int64) step { return submit(at, "acme", "a").wants(2, -5, 1, resetIn) }},
			{"settle", func(at, resetIn int64) step { return settle(at, "acme", 1, 0).wants(3, -5, 0, resetIn) }},
		} {
			left := int64(interval) // after a second more
			if mode == sinceLastReset {
				left -= 1000
			}
			add("a TTL longer than the interval is cut by "+way.name, standard, lease,
				set(0, "acme", "-4", 2*interval), way.counts(0, interval), next(1000, "acme", 1).wants(3, -6, 0, left))
			add("no TTL is made one by "+way.name, standard, lease,
				set(0, "acme", "-4", 0), way.counts(0, interval), next(1000, "acme", 1).wants(3, -6, 0, left))
		}
		add("a peek cuts and makes no TTL", standard, lease,
			set(0, "acme", "-4", 2*interval), peek(1000, "acme").wants(2, -4, 0, 2*interval-1000),
			set(1000, "acme", "-4", 0), peek(2000, "acme").wants(2, -4, 0, 0), peek(9*interval, "acme").wants(2, -4, 0, 0))

		// resetIn is at some time, where the last new document came at another.
		resetIn := func(at, updated int64) int64 {
			if mode == sinceLastReset {
				updated = 0
			}
			return interval - (at - updated)
		}
		const short, long = 60_000, 900_000
		add("a shorter lease shortens no other", standard, long,
			submit(0, "acme", "a").wants(1, 0, 1, interval),
			submit(1000, "acme", "b").leased(short).wants(1, -1, 2, resetIn(1000, 1000)),
			submit(2000, "acme", "a").leased(short).wants(1, -1, 2, resetIn(2000, 1000)),
			peek(61_000, "acme").wants(1, -1, 2, resetIn(61_000, 1000)), peek(61_001, "acme").wants(1, -1, 1, resetIn(61_001, 1000)),
			peek(long, "acme").wants(1, -1, 1, resetIn(long, 1000)), peek(long+1, "acme").wants(1, -1, 0, resetIn(long+1, 1000)))
		add("a longer lease is not shortened by those before", standard, short,
			submit(0, "acme", "a").wants(1, 0, 1, interval),
			submit(1000, "acme", "a").leased(long).wants(1, 0, 1, resetIn(1000, 0)),
			submit(2000, "acme", "b").wants(1, -1, 2, resetIn(2000, 2000)),
			peek(62_000, "acme").wants(1, -1, 2, resetIn(62_000, 2000)), peek(62_001, "acme").wants(1, -1, 1, resetIn(62_001, 2000)),
			peek(1000+long, "acme").wants(1, -1, 1, resetIn(1000+long, 2000)), peek(1001+long, "acme").wants(1, -1, 0, resetIn(1001+long, 2000)))
		add("shorter leases that have ended are cleared beside longer ones", standard, long,
			submit(0, "acme", "a").wants(1, 0, 1, interval),
			submit(0, "acme", "b", "c").leased(short).wants(1, -1, 2, interval).wants(1, -2, 3, interval),
			submit(short+1, "acme", "d").leased(short).wants(2, -3, 2, resetIn(short+1, short+1)),
			peek(long, "acme").wants(2, -3, 1, resetIn(long, short+1)))
	})
}
