package vectors_test

import "fmt"

// submitCases are those of submit.json, without what they want.
func submitCases() []vector {
	return append(countedCases(), levelCases()...)
}

// countedCases are about the documents that are counted, and are pending.
func countedCases() []vector {
	return inBothModes(func(add func(string, policyOf, int64, ...step), _ string) {
		add("documents that nobody has done yet", standard, lease,
			each(40, second, func(i int, at int64) step { return submit(at, "acme", named(i)) })...)
		add("documents that are done at once", standard, lease,
			each(80, second, func(i int, at int64) step {
				if i%2 == 0 {
					return submit(at, "acme", named(i/2))
				}
				return done(at, "acme", named(i/2))
			})...)
		add("a peek tells the level of the last document, or of the count where nothing is pending", standard, lease,
			peek(0, "acme"), next(1, "acme", 30), peek(2, "acme"), submit(3, "acme", "a"), peek(4, "acme"),
			submit(5, "acme", batch("b", 20)...), peek(6, "acme"), done(7, "acme", batch("b", 19)...), peek(8, "acme"),
			done(9, "acme", "a", "b-20"), peek(10, "acme"))
		add("a document that is delivered again counts nothing", standard, lease,
			submit(0, "acme", "a"), submit(1, "acme", "a"), submit(2, "acme", "a", "b", "a", "b"), peek(3, "acme"),
			done(4, "acme", "a"), submit(5, "acme", "a"), peek(6, "acme"))
		add("nor does it raise its level", standard, lease,
			submit(0, "acme", batch("a", 4)...), submit(1, "acme", "a-1"), submit(2, "acme", "b", "a-2", "b", "a-3"), peek(3, "acme"))
		add("done", standard, lease,
			done(0, "acme", "unknown"), submit(1, "acme", "a", "b", "c"), done(2, "acme", "b"), peek(3, "acme"),
			done(4, "acme", "b"), peek(5, "acme"), done(6, "acme", "a", "c", "a"), peek(7, "acme"), submit(8, "acme", "b"))
		add("customers do not meet", standard, lease,
			submit(0, "acme", "a", "b"), submit(1, "other", "a"), done(2, "other", "a"), peek(3, "acme"), peek(3, "other"))
		add("both ways of counting share the count, which does not matter to the level of submit", standard, lease,
			next(0, "acme", 30), submit(1, "acme", "a"), next(2, "acme", 2), submit(3, "acme", "b"), peek(4, "acme"))
		add("the interval is that of the count: exactly, and a millisecond more", standard, lease,
			submit(0, "acme", "a"), submit(interval, "acme", "b"), submit(2*interval, "acme", "a", "c"), submit(3*interval+1, "acme", "d"),
			peek(4*interval+1, "acme"), peek(4*interval+2, "acme"), submit(4*interval+3, "acme", "a"), submit(4*interval+4, "acme", "e"))
		add("a reset forgets the count, the documents and the usage", standard, lease,
			submit(0, "acme", batch("a", 20)...), done(minute, "acme", "a-1").cost(dearest), submit(2*minute, "acme", "b"),
			reset(3*minute, "acme"), peek(3*minute+1, "acme"), submit(4*minute, "acme", batch("a", 6)...), done(5*minute, "acme", "b"),
			peek(6*minute, "acme"), peek(day-minute, "acme"))
	})
}

// levelCases are about what a level is made of. The reset mode does not matter to it.
func levelCases() (all []vector) {
	add := func(name string, policy policyOf, lease int64, steps ...step) {
		policy.Mode = sinceLastUpdate
		all = append(all, vector{Name: name, Policy: policy, Lease: lease, Steps: steps})
	}
	usageCases(add)
	costCases(add)
	leaseCases(add)
	lastLevelCases(add)
	scaleCases(add)
	return all
}

type adder func(name string, policy policyOf, lease int64, steps ...step)

// usageCases are about what was submitted lately.
func usageCases(add adder) {
	once := func(at int64, documents ...string) []step {
		return []step{submit(at, "acme", documents...), done(at+second, "acme", documents...)}
	}
	var steps []step
	for days := range int64(8) { // 100 come down to 1
		steps = append(steps, once(days*day+minute, fmt.Sprint("a-", days))...)
		if days == 0 {
			steps = append(steps, once(2*minute, batch("b", 99)...)...)
		}
	}
	add("usage halves each day", standard, lease, steps...)
	add("usage halves with time, not at the day's end", standard, lease,
		append(once(0, batch("a", 20)...), append(once(6*hour, "b"), append(once(23*hour, "c"), once(25*hour, "d")...)...)...)...)
	add("a customer is forgotten a day after one document, and later after more", standard, lease,
		submit(0, "acme", "a"), done(minute, "acme", "a").cost(dearest), submit(23*hour, "acme", "b"), done(23*hour+minute, "acme", "b"),
		// The two were 1.51, which is one half after 38 hours.
		submit(60*hour, "acme", "c"), done(60*hour+minute, "acme", "c"), submit(60*hour+2*minute, "acme", batch("d", 6)...),
		done(61*hour, "acme", batch("d", 6)...), submit(10*day, "acme", batch("e", 6)...))
	add("more usage than the last level takes is not remembered", narrow, lease,
		append(once(0, batch("a", 100)...), append(once(minute, batch("b", 100)...), append(once(2*minute, batch("c", 100)...),
			submit(day+2*hour, "acme", "d", "e", "f"))...)...)...)
	add("what is pending, of a customer who has submitted little lately", standard, lease,
		submit(0, "acme", batch("a", 20)...), submit(23*hour, "acme", "b"), done(23*hour+minute, "acme", batch("a", 12)...),
		submit(23*hour+2*minute, "acme", "c"))
}

// costCases are about how long the documents are worked on.
func costCases(add adder) {
	times := func(n int, step func(i int) []step) (steps []step) {
		for i := range n {
			steps = append(steps, step(i)...)
		}
		return steps
	}
	oneByOne := func(at int64, name string, n int) []step {
		return times(n, func(i int) []step { return []step{submit(at+int64(i), "acme", fmt.Sprint(name, i+1))} })
	}
	add("an expensive customer: a cost moves by a tenth", standard, lease, append([]step{
		submit(0, "acme", "a"), done(second, "acme", "a").cost(40_000), // it is 4.9 then
		submit(2*second, "acme", "b"), done(3*second, "acme", "b").cost(1), // and 4.4
	}, oneByOne(4*second, "c-", 24)...)...)
	add("a very expensive one", standard, lease, append([]step{
		submit(0, "acme", "a"), done(second, "acme", "a").cost(dearest), // 101
	}, oneByOne(2*second, "b-", 20)...)...)
	add("a cheap one", standard, lease, append(times(12, func(i int) []step {
		at := 2 * int64(i) * second
		return []step{submit(at, "acme", named(i)), done(at+second, "acme", named(i)).cost(1)}
	}), oneByOne(minute, "b-", 16)...)...)
	add("a cost is at least a thousandth", standard, lease,
		submit(0, "acme", batch("a", 100)...), done(second, "acme", batch("a", 100)...).cost(1),
		submit(2*second, "acme", "b"), done(3*second, "acme", "b").cost(10_000), // it is 1.0
		submit(4*second, "acme", batch("c", 20)...))
	add("what is not known changes no cost", standard, lease, append([]step{
		submit(0, "acme", "a", "b"), done(second, "acme", "a").cost(dearest), done(2*second, "acme", "b"),
	}, oneByOne(3*second, "c-", 8)...)...)
	add("nor does a Done of what is not pending, or the second of two", standard, lease, append([]step{
		submit(0, "acme", "a", "b"), done(second, "acme", "a", "unknown", "a").cost(99_999), done(2*second, "acme", "a").cost(99_999),
		done(3*second, "acme", "unknown").cost(99_999),
	}, oneByOne(4*second, "c-", 12)...)...)
	add("nor one of a customer of whom nothing is known any more", standard, lease,
		submit(0, "acme", "a"), submit(23*hour, "acme", "a"), done(25*hour, "acme", "a").cost(dearest),
		submit(25*hour+minute, "acme", batch("b", 6)...), done(26*hour, "acme", "b-1").cost(2000), submit(26*hour+minute, "acme", "c"))
	add("what is known is forgotten though a document is pending", standard, lease,
		submit(0, "acme", "a", "b"), done(2*hour, "acme", "a").cost(dearest), submit(23*hour, "acme", "b"), submit(46*hour, "acme", "b"),
		submit(49*hour, "acme", batch("c", 6)...), peek(50*hour, "acme"), peek(70*hour-minute, "acme"), peek(70*hour+minute, "acme"))
	add("a cost fades with the usage only", standard, lease,
		submit(0, "acme", batch("a", 8)...), done(minute, "acme", batch("a", 8)...).cost(20_000), submit(72*hour, "acme", batch("b", 4)...),
		done(73*hour, "acme", batch("b", 4)...), submit(13*day, "acme", batch("c", 4)...))
}

// leaseCases are about how long a document counts as pending.
func leaseCases(add adder) {
	add("a lease is a day until it is known how long documents take", standard, lease,
		submit(0, "acme", "a"), submit(hour, "acme", "b"), peek(day-minute, "acme"), peek(day+minute, "acme"),
		submit(day+2*minute, "acme", "c"), peek(day+hour-minute, "acme"), peek(day+hour+minute, "acme"), submit(day+hour+2*minute, "acme", "b", "a"))
	add("a delivery renews a lease", standard, lease,
		submit(0, "acme", "a", "b"), submit(23*hour, "acme", "a"), peek(day+minute, "acme"), peek(47*hour-minute, "acme"),
		peek(47*hour+minute, "acme"), submit(48*hour, "acme", "a"))
	add("documents take a minute: a lost Done matters for 20", standard, lease,
		submit(0, "acme", "a"), submit(second, "acme", "b"), done(minute, "acme", "a"), peek(19*minute, "acme"), peek(27*minute, "acme"),
		submit(28*minute, "acme", "c"), submit(29*minute, "acme", "b"), peek(46*minute, "acme"), peek(55*minute, "acme"))
	add("documents take a second: a lost Done matters for three minutes", standard, lease,
		submit(0, "acme", "a"), submit(1, "acme", "b"), done(second, "acme", "a"), peek(150*second, "acme"),
		submit(151*second, "acme", "b"), peek(301*second, "acme"), peek(700*second, "acme"), submit(710*second, "acme", "c"))
	add("documents take an hour: a lost Done matters for 20", standard, lease,
		submit(0, "acme", "a"), submit(second, "acme", "b"), done(hour, "acme", "a"), peek(20*hour-minute, "acme"),
		peek(20*hour+10*minute, "acme"), submit(21*hour, "acme", "c"))
	add("documents take two hours: a lost Done matters for a day", standard, lease,
		submit(0, "acme", "a", "b"), submit(hour, "acme", "c"), done(2*hour, "acme", "a"), peek(day-minute, "acme"), peek(day+minute, "acme"),
		submit(day+2*minute, "acme", "d"))
	add("a bound of an hour", standard, hour,
		submit(0, "acme", "a"), submit(second, "acme", "b"), peek(59*minute, "acme"), peek(61*minute, "acme"),
		submit(62*minute, "acme", "a", "c"), done(92*minute, "acme", "a"), peek(121*minute, "acme"), peek(123*minute, "acme"))
	add("a bound of a minute, which is less than the least", standard, minute,
		submit(0, "acme", "a", "b"), done(second, "acme", "a"), peek(40*second, "acme"), peek(61*second, "acme"), submit(62*second, "acme", "b"))
	add("the time that documents take moves by a tenth", standard, lease,
		submit(0, "acme", "a"), done(minute, "acme", "a"), submit(2*minute, "acme", "b", "c"),
		done(22*minute, "acme", "b"), // 174 s: the lease is 58 minutes
		peek(59*minute, "acme"), peek(67*minute, "acme"),
		done(90*minute, "acme", "c"), // 11.4 minutes: 229
		submit(100*minute, "acme", "d"), peek(327*minute, "acme"), peek(340*minute, "acme"))
	add("all documents of a Done are learned from, each once", standard, lease,
		submit(0, "acme", "a"), submit(29*minute, "acme", "b"), done(30*minute, "acme", "b", "a", "b", "unknown"), // 1 and 30: 3.9 minutes
		submit(40*minute, "acme", "c"), peek(116*minute, "acme"), peek(126*minute, "acme"))
	add("what waits longer than a lease is not pending, and its Done is learned from", standard, lease,
		submit(0, "acme", "a", "b", "c"), done(minute, "acme", "a"), submit(2*hour, "acme", "d"), done(2*hour+minute, "acme", "b"), // 13 minutes
		submit(3*hour, "acme", "e"), peek(7*hour, "acme"), peek(8*hour, "acme"))
	add("a document past its lease is counted again when it is delivered", standard, 10*minute,
		submit(0, "acme", "a", "b", "c", "d"), submit(11*minute, "acme", "a"), submit(12*minute, "acme", "b", "e"), done(13*minute, "acme", "c"),
		peek(14*minute, "acme"))
	add("of documents, some are past their leases", standard, 10*minute+minute/2, append(
		each(20, minute, func(i int, at int64) step { return submit(at, "acme", named(i)) }),
		done(20*minute, "acme", named(15), named(16), named(0)), submit(22*minute, "acme", "a"), peek(27*minute, "acme"))...)
	add("a document is forgotten after a day, and its Done not learned from", standard, lease,
		submit(0, "acme", "a", "b"), submit(hour, "acme", "c"), done(day+minute, "acme", "a").cost(dearest), submit(day+2*minute, "acme", "d"),
		done(day+3*minute, "acme", "d"), peek(day+4*minute, "acme"), peek(day+31*minute, "acme"), submit(day+32*minute, "acme", "e"))
	add("a lease is forgotten with the usage", standard, lease,
		submit(0, "acme", "a", "b"), done(second, "acme", "a", "b"), submit(50*hour, "acme", "c"), peek(52*hour, "acme"),
		peek(74*hour-minute, "acme"), peek(74*hour+minute, "acme"))
}

// lastLevelCases are about documents that were given the last level: others do not
// stand behind them.
func lastLevelCases(add adder) {
	add("what has the last level does not count as pending, and Dones lead out of it", narrow, lease,
		submit(0, "acme", batch("a", 100)...), submit(second, "acme", batch("b", 28)...), submit(2*second, "acme", batch("c", 4)...),
		peek(3*second, "acme"), done(4*second, "acme", "c-1", "c-2"), submit(5*second, "acme", "d"), peek(6*second, "acme"),
		done(7*second, "acme", "a-1"), peek(8*second, "acme"), submit(9*second, "acme", "e", "f"), peek(10*second, "acme"),
		done(11*second, "acme", batch("a", 70)...), peek(12*second, "acme"), submit(13*second, "acme", "g", "h"), peek(14*second, "acme"))

	// An expensive customer, two of whose documents come before the last level.
	steps := []step{
		submit(0, "acme", batch("a", 66)...), done(second, "acme", batch("a", 65)...), submit(2*second, "acme", "b"),
		done(3*second, "acme", "b").cost(dearest), submit(4*second, "acme", "c", "d", "e", "f"), peek(5*second, "acme"),
	}
	after := func(more ...step) []step { return append(steps[:len(steps):len(steps)], more...) }
	add("a document at the last level is delivered again", narrow, lease, after(
		submit(6*second, "acme", "d"), peek(7*second, "acme"), done(8*second, "acme", "a-66"), peek(9*second, "acme"),
		submit(10*second, "acme", "d", "e"), peek(11*second, "acme"), submit(12*second, "acme", "g", "f"), peek(13*second, "acme"))...)
	add("a document comes to the last level when it is delivered again", narrow, lease,
		submit(0, "acme", batch("a", 70)...), done(second, "acme", "a-1").cost(dearest), submit(2*second, "acme", batch("a", 5)...),
		peek(3*second, "acme"), done(4*second, "acme", batch("a", 69)...), submit(5*second, "acme", "b", "c", "a-70"), peek(6*second, "acme"))
	add("the time that documents take is not learned from the last level, but the cost is", narrow, lease,
		submit(0, "acme", batch("a", 80)...), done(10*minute, "acme", batch("a", 79)...), submit(11*minute, "acme", "b"),
		done(21*minute, "acme", "b").cost(dearest), submit(22*minute, "acme", "c", "d", "e", "f"),
		done(150*minute, "acme", "d", "e").cost(1), // the cost is 81.8, and the lease still 200 minutes
		submit(160*minute, "acme", "g", "h"), peek(185*minute, "acme"), peek(235*minute, "acme"))
	add("what has the last level is pending for a lease too", narrow, hour,
		submit(0, "acme", batch("a", 70)...), submit(minute, "acme", "b"), done(20*minute, "acme", "a-1").cost(dearest),
		submit(30*minute, "acme", "c", "d"), peek(89*minute, "acme"), peek(91*minute, "acme"), submit(92*minute, "acme", "c"))
}

// scaleCases are about policies: of K levels, and of which the first begins
// elsewhere.
func scaleCases(add adder) {
	down := func(from int64, levels int) []int64 {
		thresholds := make([]int64, levels-1)
		for i := range thresholds {
			thresholds[i] = from - int64(i)
		}
		return thresholds
	}
	for _, scale := range []struct {
		name       string
		thresholds []int64
	}{
		{"one level", down(-1, 1)},
		{"two levels", down(-1, 2)},
		{"three levels", down(-1, 3)},
		{"five levels", down(-1, 5)},
		{"255 levels, of which submit gives nine", down(-1, 255)},
		{"a first threshold of 0", down(0, 9)},
		{"a first threshold above 0", []int64{5, 1, -2, -9}},
	} {
		add(scale.name, policyOf{Thresholds: scale.thresholds, Interval: interval}, lease,
			submit(0, "acme", batch("a", 66)...), done(second, "acme", "a-1").cost(dearest), peek(2*second, "acme"),
			submit(3*second, "acme", "b"), peek(4*second, "acme"))
	}
	add("a first threshold of -20", policyOf{Thresholds: down(-20, 9), Interval: interval}, lease,
		submit(0, "acme", batch("a", 82)...), peek(second, "acme"), done(2*second, "acme", "a-1").cost(dearest), submit(3*second, "acme", "b"))
}

// named is the id of a document.
func named(i int) string { return fmt.Sprint("invoice-", i+1) }

// batch returns the ids of documents.
func batch(name string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint(name, "-", i+1)
	}
	return ids
}
