package vectors_test

import (
	"slices"

	"github.com/docpriority/priority/internal/vectors"
)

// The counts beside which the scripts stop: Lua compares numbers of up to 15 digits
// exactly.
const (
	tooLarge  = "1000000000000000"
	tooSmall  = "-1000000000000000"
	largest   = "999999999999999"
	beforeEnd = "-999999999999998"
)

// edgeCases are the cases of edges.json, without what they want: keys as only other programs,
// or processes with other settings, leave them.
func edgeCases() []vectors.Case { return slices.Concat(countCases(), historyCases(), overrideCases()) }

// overrideCases are the cases of edges.json about an operator's override.
func overrideCases() []vectors.Case {
	return inBothModes(func(add adder) {
		override := func(at int64, value string, ttl int64) step { return set(at, "acme", value, ttl).of("override") }
		for _, value := range []string{"=1", "=5", "=9", "=200", ">=7", ">=1", ">=99", "<=3", "<=1", "<=99"} {
			add("an override: "+value, standard, lease,
				override(0, value, day), peek(0, "acme"), next(0, "acme", 1), next(1, "acme", 2), next(2, "acme", 30), peek(2, "acme"),
				next(2, "other", 1), submit(3, "acme", "a", "b"), submit(4, "acme", "c"), submit(5, "acme", batch("d", 60)...), submit(6, "acme", "a"),
				peek(7, "acme"), done(second, "acme", "a", "c", "d-60"), reset(2*second, "acme"), next(3*second, "acme", 1), peek(3*second, "acme"))
		}
		for _, value := range []string{"", "=", "=0", "=01", "==1", "5", "<5", ">=", "= 1", "=1 ", "=-1", "=1000", "many"} {
			add("no override: "+value, standard, lease,
				override(0, value, 0), next(0, "acme", 1), next(1, "acme", 1), next(2, "acme", 3), submit(3, "acme", "a"), peek(4, "acme"))
		}
		add("an override ends", standard, lease,
			next(0, "acme", 22), submit(0, "acme", batch("a", 40)...), override(0, "=1", hour), next(1, "acme", 1), submit(2, "acme", "b"),
			peek(hour-minute, "acme"), submit(hour-minute, "acme", "c"), next(hour+minute, "acme", 1), submit(hour+minute, "acme", "d"), peek(hour+minute, "acme"),
			done(hour+2*minute, "acme", "a-40", "b", "c", "d"))
		add("an override has no end", standard, lease, override(0, "<=2", 0), next(0, "acme", 30), peek(0, "acme"), next(9*day, "acme", 1), peek(9*day, "acme"))
		add("a count of 0 without a TTL counts as none, beside an override and without one", standard, lease,
			set(0, "acme", "0", 0), override(0, "=3", 0), next(0, "acme", 1), set(0, "other", "0", 0), next(0, "other", 1), next(0, "other", 1))
		add("a count that is no count beside an override", standard, lease,
			set(0, "acme", "many", 0), override(0, "=3", 0), next(0, "acme", 1), peek(0, "acme"), submit(0, "acme", "a"))
		add("an override behind turns", loaded(5, 2, 8, 32), lease,
			override(0, ">=6", 0), submit(0, "acme", batch("a", 40)...), peek(1, "acme"), override(2, "<=2", 0), submit(3, "acme", "b"), submit(4, "acme", "a-40"),
			peek(5, "acme"), done(second, "acme", "a-40", "a-39", "b"))
		add("an override in a queue of three levels", vectors.Policy{Thresholds: []int64{-2, -4}, Interval: interval}, lease,
			override(0, "=9", 0), next(0, "acme", 1), submit(0, "acme", "a"), peek(1, "acme"), override(2, ">=2", 0), next(2, "acme", 7), peek(2, "acme"))
	})
}

// countCases are those about the key of the count.
func countCases() []vectors.Case {
	return inBothModes(func(add adder) {
		for _, value := range []string{tooLarge, tooSmall, "9223372036854775807", "-9223372036854775808", "many"} {
			add("no count: "+value, standard, lease,
				set(0, "acme", value, 1000), next(1, "acme", 1), next(2, "acme", 3), peek(3, "acme"), submit(4, "acme", "a"), done(5, "acme", "a"),
				peek(6, "acme"), reset(7, "acme"), next(8, "acme", 1))
		}
		add("the largest count", standard, lease,
			set(0, "acme", largest, interval), peek(0, "acme"), next(0, "acme", 1), peek(0, "acme"))
		add("the last count", standard, lease,
			set(0, "acme", beforeEnd, interval), next(0, "acme", 2), next(0, "acme", 1), next(0, "acme", 1), next(0, "acme", 1_000_000), peek(0, "acme"))
		add("a TTL longer than the interval is cut", standard, lease,
			set(0, "acme", "-4", 2*interval), next(0, "acme", 1), next(1000, "acme", 1))
		add("no TTL is made one", standard, lease, set(0, "acme", "-4", 0), next(0, "acme", 1), next(1000, "acme", 1))
		add("a peek and a submit cut and make no TTL", standard, lease,
			set(0, "acme", "-4", 2*interval), peek(1000, "acme"), submit(1000, "acme", "a"), peek(1000, "acme"),
			set(1000, "acme", "-4", 0), submit(1000, "acme", "b"), peek(2000, "acme"), peek(9*interval, "acme"))
	})
}

// historyCases are the cases of edges.json about the other two keys. The reset mode does
// not matter to them.
func historyCases() (all []vectors.Case) {
	add := func(name string, lease int64, steps ...step) {
		policy := standard
		policy.Mode = sinceLastUpdate
		all = append(all, vectors.Case{Name: name, Policy: policy, Lease: lease, Steps: stepsOf(steps)})
	}
	usage := func(at int64, value string, ttl int64) step { return set(at, "acme", value, ttl).of("usage") }

	for _, value := range []string{"", "0", "01000", "many", "-1", "1.5", " 1000", "1e3", "1000000000000000", "v2 1000"} {
		add("no usage: "+value, lease,
			usage(0, value, 2*day), submit(1, "acme", "a", "b"), submit(2, "acme", "a").costing(2000), done(3, "acme", "a"), done(4, "acme", "a").cost(2000),
			peek(5, "acme"), next(6, "acme", 1), next(7, "acme", 1), reset(8, "acme"), submit(9, "acme", "a"), peek(10, "acme"))
	}
	add("no pending documents: many", lease,
		set(0, "acme", "many", minute).of("pending"), submit(1, "acme", "a"), submit(2, "acme", "a", "b"), done(3, "acme", "a"), done(4, "acme", "a", "b"),
		peek(5, "acme"), next(6, "acme", 1), reset(7, "acme"), submit(8, "acme", "a"))

	add("what was submitted lately, the cost and the time that documents take", lease,
		usage(0, "600002500", 4*day), peek(0, "acme"), submit(second, "acme", "a"), peek(2*second, "acme"), peek(3*second, "acme").leased(minute),
		done(31*second, "acme", "a").cost(5000), // (9 × 600 + 300) ÷ 10 and (9 × 2500 + 5000) ÷ 10
		peek(31*second, "acme"), done(32*second, "acme", "a").cost(5000), peek(33*second, "acme"), peek(3*day, "acme"), peek(5*day, "acme"))
	for _, value := range []string{"1000", "1001000", "89001000", "91001000", "43199001000", "43201001000", "999999999001000", "1999999", "1"} {
		add("the lease and the cost of "+value, lease,
			usage(0, value, day), peek(1, "acme"), peek(2, "acme").leased(hour), peek(3, "acme").leased(minute), submit(4, "acme", "a"))
	}
	add("a usage without a TTL counts as none and is given one", lease,
		usage(0, "600002500", 0), peek(0, "acme"), submit(second, "acme", "a", "b", "c"), peek(second, "acme"), peek(day+second, "acme"), peek(3*day, "acme"))
	add("a done gives a usage no TTL", lease,
		usage(0, "1000", 2*day), submit(0, "acme", "a", "b"), usage(0, "1000", 0), done(minute, "acme", "a").cost(2000), peek(minute, "acme"),
		peek(4*minute, "acme"))
	add("more than 512 documents are cut", lease,
		usage(0, "1000", 20*day), peek(0, "acme"), submit(second, "acme", "a"), peek(second, "acme"), submit(3*day+second, "acme", "b"), peek(3*day+second, "acme"))
	// 2^(1/2), 2^(1/4) … documents, and hardly any.
	for _, left := range []int64{1, second, day / 2, day, day + day/4, day + day/2, 3*day - hour, 10*day - 7, 10 * day} {
		add("what a TTL is of a usage: "+named(int(left) - 1)[len("invoice-"):]+" ms", lease, slices.Concat(
			[]step{usage(0, "1000", left+minute)}, []step{peek(minute/2, "acme"), submit(minute/2, "acme", "a"), peek(minute/2, "acme")})...)
	}

	const short, long = minute, 15 * minute
	add("a shorter lease shortens no other", long,
		submit(0, "acme", "a"), submit(second, "acme", "b").leased(short), submit(2*second, "acme", "a").leased(short), peek(40*second, "acme"),
		peek(40*second, "acme").leased(short), peek(90*second, "acme").leased(short), peek(90*second, "acme"),
		submit(91*second, "acme", "a").leased(short), peek(92*second, "acme"), done(93*second, "acme", "b").leased(short), peek(94*second, "acme"))
	add("a longer lease lengthens no other", short,
		submit(0, "acme", "a").leased(long), submit(second, "acme", "b"), peek(90*second, "acme"), peek(90*second, "acme").leased(long),
		submit(91*second, "acme", "c"), submit(92*second, "acme", "b").leased(long))
	add("what is older than a day is cleared, a few with each submit", lease,
		submit(0, "acme", batch("a", 20)...), submit(23*hour, "acme", "a-1"), submit(day+hour, "acme", "b"), peek(day+hour, "acme"),
		done(day+hour, "acme", "a-1", "a-2", "b"), peek(day+hour+minute, "acme"), submit(day+2*hour, "acme", "a-9"), peek(day+2*hour, "acme"))
	return all
}
