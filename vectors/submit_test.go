package vectors_test

import (
	"fmt"
	"slices"

	"github.com/docpriority/priority/internal/vectors"
)

// submitCases are the cases of submit.json, without what they want. The reset mode does not
// matter to them, as Submit has nothing to do with the count.
func submitCases() (cases []vectors.Case) {
	add := addTo(&cases)
	pendingCases(add)
	boundCases(add)
	recentCases(add)
	costCases(add)
	leaseCases(add)
	beyondCases(add)
	turnCases(add)
	tableCases(add)
	return cases
}

// pendingCases are about the documents that are pending.
func pendingCases(add adder) {
	add("documents that are done at once", standard, lease,
		each(60, second, func(i int, at int64) step {
			if i%2 == 0 {
				return submit(at, "acme", named(i/2))
			}
			return done(at, "acme", named(i/2))
		})...)
	add("a peek tells the newest document and the oldest, and what comes next", standard, lease,
		peek(0, "acme"), submit(second, "acme", "a"), peek(2*second, "acme"), submit(3*second, "acme", batch("b", 20)...), peek(4*second, "acme"),
		done(5*second, "acme", "a"), peek(6*second, "acme"), done(7*second, "acme", batch("b", 20)...), peek(8*second, "acme"))
	add("a document that is submitted again counts nothing", standard, lease,
		submit(0, "acme", "a"), submit(1, "acme", "a"), peek(2, "acme"), submit(3, "acme", "a", "b", "a", "b"), peek(4, "acme"),
		done(5, "acme", "a"), submit(6, "acme", "a"), peek(7, "acme"))
	add("nor beside a new one, half a day later", standard, lease,
		submit(0, "acme", "a"), submit(12*hour, "acme", "a", "b"), peek(12*hour, "acme"), submit(20*hour, "acme", "b", "a", "c"), peek(20*hour, "acme"))
	add("nor does it raise its level", standard, lease,
		submit(0, "acme", batch("a", 4)...), submit(1, "acme", "a-1"), submit(2, "acme", "a-2", "a-3"), submit(3, "acme", "b", "a-2", "b", "a-3"),
		peek(4, "acme"))
	add("done", standard, lease,
		done(0, "acme", "unknown"), submit(second, "acme", "a", "b", "c"), done(2*second, "acme", "b"), peek(3*second, "acme"),
		done(4*second, "acme", "b"), peek(5*second, "acme"), done(6*second, "acme", "a", "unknown", "c", "a"), peek(7*second, "acme"),
		submit(8*second, "acme", "b"))
	add("customers do not meet", standard, lease,
		submit(0, "acme", "a", "b"), submit(1, "other", "a"), done(2, "other", "a"), peek(3, "acme"), peek(3, "other"))
	add("the rules do not meet: submit leaves the count as it is", standard, lease,
		next(0, "acme", 30), peek(0, "acme"), submit(1, "acme", "a"), peek(1, "acme"), next(2, "acme", 2), submit(3, "acme", "b"), peek(4, "acme"),
		done(5, "acme", "a", "b"), peek(6, "acme"), peek(interval+3, "acme"), peek(5*day, "acme"))
	add("a reset forgets the count, the documents and what was submitted recently", standard, lease,
		next(0, "acme", 3), submit(0, "acme", batch("a", 20)...), done(minute, "acme", "a-1").cost(dearest), submit(2*minute, "acme", "b"),
		reset(3*minute, "acme"), peek(3*minute+1, "acme"), submit(4*minute, "acme", batch("a", 6)...), done(5*minute, "acme", "b"),
		peek(6*minute, "acme"), peek(day-minute, "acme"))
}

// boundCases are about loads at the table's bounds, which belong to the better level.
func boundCases(add adder) {
	// Documents of new customers: as many as make the load with the cost of the last.
	for _, bound := range []struct {
		load, cost int64
		documents  int
	}{
		{2, 2000, 1}, {512, 32_000, 4}, {32768, 32_000, 32},
	} {
		at := func(cost int64) step {
			costs := make([]int64, bound.documents)
			costs[len(costs)-1] = cost
			return submit(0, fmt.Sprint("of ", cost), batch("a", bound.documents)...).costing(costs...)
		}
		add(fmt.Sprintf("a load of exactly %d, and less and more by a thousandth of its cost", bound.load), standard, lease,
			at(bound.cost-1), at(bound.cost), at(bound.cost+1))
	}
	// Half a day later 1 is 0.707.
	for _, load := range []float64{1.706_999, 1.707, 1.707_001} {
		add(fmt.Sprint("a load of 1.707 where the table has ", load), loaded(0, load), lease,
			submit(0, "acme", "a"), done(second, "acme", "a"), peek(12*hour, "acme"), submit(12*hour, "acme", "b"))
	}
	add("the least load and the greatest of a table", loaded(0, 0.000_001, 1e9), lease,
		submit(0, "acme", "a", "b").costing(1, 100_000), peek(1, "acme"))
}

// recentCases are about what was submitted recently.
func recentCases(add adder) {
	once := func(at int64, documents ...string) []step {
		return []step{submit(at, "acme", documents...), done(at+second, "acme", documents...)}
	}
	add("it fades all day long, not at the day's end", standard, lease, slices.Concat(
		once(0, batch("a", 20)...), []step{peek(6*hour, "acme"), peek(12*hour, "acme"), peek(18*hour, "acme"), peek(day, "acme")},
		once(25*hour, "b"), []step{peek(37*hour, "acme"), peek(49*hour, "acme")})...)
	add("eight are forgotten after four days", standard, lease,
		submit(0, "acme", batch("a", 8)...), done(minute, "acme", batch("a", 8)...).cost(dearest), peek(12*hour, "acme"), peek(day, "acme"),
		peek(3*day, "acme"), peek(4*day-minute, "acme"), peek(4*day+minute, "acme"), submit(4*day+2*minute, "acme", "b"))
	full := slices.Concat(once(0, batch("a", 100)...), once(2*second, batch("b", 100)...), once(4*second, batch("c", 100)...),
		once(6*second, batch("d", 100)...), once(8*second, batch("e", 100)...))
	add("512 are remembered, and not the 513th", standard, lease, slices.Concat(full, once(10*second, batch("f", 12)...),
		[]step{submit(12*second, "acme", "the 513th"), peek(13*second, "acme"), done(14*second, "acme", "the 513th"), peek(day+12*second, "acme")})...)
	add("what is pending, of a customer who has submitted little recently", standard, lease,
		submit(0, "acme", batch("a", 20)...), submit(23*hour, "acme", "b"), done(23*hour+minute, "acme", batch("a", 12)...),
		submit(23*hour+2*minute, "acme", "c"))
	add("only a document that is counted renews what is remembered", standard, lease,
		submit(0, "acme", "a"), submit(12*hour, "acme", "a"), peek(12*hour, "acme"), submit(25*hour, "acme", "a"), peek(25*hour, "acme"),
		done(26*hour, "acme", "a").cost(2000), peek(26*hour, "acme"))
}

// costCases are about what a document costs.
func costCases(add adder) {
	one := func(at int64, customer string, cost int64) step { return submit(at, customer, "a").costing(cost) }
	add("costs that a submit is told", standard, lease,
		one(0, "unknown", 0), one(0, "the least", 1), one(0, "half", 500), one(0, "the average", 1000), one(0, "three times", 3000),
		one(0, "a hundred times", dearest))
	add("only its own cost counts, not those of what is pending", standard, lease,
		submit(0, "acme", "a", "b").costing(dearest, dearest), submit(1, "acme", "c").costing(1000), submit(2, "acme", "d"), peek(3, "acme"))
	add("a cost that is told is taken, else the average of the customer, by done", standard, lease,
		submit(0, "acme", "a"), done(second, "acme", "a").cost(41_000), peek(2*second, "acme"), // 5
		submit(3*second, "acme", "b", "c", "d").costing(0, 1000, 2), submit(4*second, "acme", "e"), submit(5*second, "acme", "f").costing(1),
		peek(6*second, "acme"))
	add("an average moves by a tenth", standard, lease,
		submit(0, "acme", "a", "b", "c"), done(second, "acme", "a").cost(40_000), peek(2*second, "acme"), // 4.9
		done(3*second, "acme", "b").cost(1), peek(4*second, "acme"), done(5*second, "acme", "c").cost(4411), peek(6*second, "acme"))
	add("an average is at least a thousandth", standard, lease,
		submit(0, "acme", batch("a", 100)...), done(second, "acme", batch("a", 100)...).cost(1), peek(2*second, "acme"), submit(3*second, "acme", "b"),
		done(4*second, "acme", "b").cost(10_000), peek(5*second, "acme"))
	add("a done of what is not pending, or the second of two, moves no average", standard, lease,
		submit(0, "acme", "a", "b"), done(second, "acme", "a", "unknown", "a").cost(20_000), done(2*second, "acme", "a").cost(20_000),
		done(3*second, "acme", "unknown").cost(20_000), peek(4*second, "acme"))
}

// leaseCases are about how long a document counts as pending.
func leaseCases(add adder) {
	add("a submit again renews a lease", standard, lease,
		submit(0, "acme", "a", "b"), submit(23*hour, "acme", "a"), peek(day+minute, "acme"), peek(47*hour-minute, "acme"),
		peek(47*hour+minute, "acme"), submit(48*hour, "acme", "a"))
	add("documents take a minute: a lost done matters for 20", standard, lease,
		submit(0, "acme", "a"), submit(second, "acme", "b"), done(minute, "acme", "a"), peek(19*minute, "acme"), peek(27*minute, "acme"),
		submit(28*minute, "acme", "c"), submit(29*minute, "acme", "b"), peek(46*minute, "acme"), peek(55*minute, "acme"))
	add("documents take a second: a lost done matters for three minutes", standard, lease,
		submit(0, "acme", "a"), submit(1, "acme", "b"), done(second, "acme", "a"), peek(150*second, "acme"),
		submit(151*second, "acme", "b"), peek(301*second, "acme"), peek(700*second, "acme"), submit(710*second, "acme", "c"))
	add("documents take two hours: a lost done matters for a day", standard, lease,
		submit(0, "acme", "a", "b"), submit(hour, "acme", "c"), done(2*hour, "acme", "a"), peek(day-minute, "acme"), peek(day+minute, "acme"),
		submit(day+2*minute, "acme", "d"))
	add("the time that documents take moves by a tenth", standard, lease,
		submit(0, "acme", "a"), done(minute, "acme", "a"), submit(2*minute, "acme", "b", "c"),
		done(22*minute, "acme", "b"), // no more than three times as long as usual: 72 s
		peek(23*minute, "acme"), peek(32*minute, "acme"), done(90*minute, "acme", "c"), submit(100*minute, "acme", "d"), peek(101*minute, "acme"))
	add("all documents of a done are learned from, each once", standard, lease,
		submit(0, "acme", "a"), submit(29*minute, "acme", "b"), done(30*minute, "acme", "b", "a", "b", "unknown"), peek(31*minute, "acme"))
	add("a document past its lease is counted again when it is submitted again", standard, 10*minute,
		submit(0, "acme", "a", "b", "c", "d"), submit(11*minute, "acme", "a"), submit(12*minute, "acme", "b", "e"), done(13*minute, "acme", "c"),
		peek(14*minute, "acme"))
	add("a document is forgotten after a day, and its done not learned from", standard, lease,
		submit(0, "acme", "a", "b"), submit(hour, "acme", "c"), done(day+minute, "acme", "a").cost(dearest), submit(day+2*minute, "acme", "d"),
		done(day+3*minute, "acme", "d"), peek(day+4*minute, "acme"), peek(day+31*minute, "acme"), submit(day+32*minute, "acme", "e"))
}

// beyondCases are about documents beyond the last load: others do not stand behind them.
func beyondCases(add adder) {
	add("what is beyond the last load does not count as pending", narrow, lease,
		submit(0, "acme", batch("a", 12)...), peek(second, "acme"), submit(2*second, "acme", "b"), done(3*second, "acme", "a-1", "a-7"),
		submit(4*second, "acme", "c"), peek(5*second, "acme"), done(6*second, "acme", batch("a", 12)...), peek(7*second, "acme"),
		submit(8*second, "acme", "d", "e", "f"), peek(9*second, "acme"))
	add("a document comes beyond the last load when it is submitted again", narrow, lease,
		submit(0, "acme", "a", "b"), submit(second, "acme", "b").costing(dearest), peek(2*second, "acme"), submit(3*second, "acme", "c"),
		submit(4*second, "acme", "b").costing(1), peek(5*second, "acme"))
	add("the time from submit to done is not learned from what is beyond the last load, but the cost is", narrow, lease,
		submit(0, "acme", batch("a", 7)...), done(10*minute, "acme", "a-7").cost(dearest), peek(11*minute, "acme"),
		done(20*minute, "acme", "a-1").cost(1), peek(21*minute, "acme"))
	add("one level: all is beyond the last load, for there is none", loaded(0, []float64{}...), lease,
		submit(0, "acme", "a", "b", "c"), peek(second, "acme"), done(2*second, "acme", "b"), peek(3*second, "acme"))
}

// turnCases are about floods that take turns behind the last load.
func turnCases(add adder) {
	for _, turns := range []int{0, 3, 13} {
		add(fmt.Sprintf("turns: %d", turns), loaded(turns, 2, 8, 32), lease,
			submit(0, "acme", batch("a", 30)...), peek(second, "acme"), submit(2*second, "acme", "b"), peek(3*second, "acme"))
	}
	add("a flood alone", loaded(13, 0.5), lease, each(16, second, func(i int, at int64) step { return submit(at, "acme", named(i)) })...)
	add("each customer has turns of their own", turning, lease,
		submit(0, "acme", batch("a", 12)...), submit(second, "other", batch("a", 7)...), submit(2*second, "other", "b"), submit(3*second, "acme", "b"),
		peek(4*second, "acme"), peek(4*second, "other"))
	add("a done makes room in a turn", turning, lease,
		submit(0, "acme", batch("a", 9)...), peek(second, "acme"), done(2*second, "acme", "a-6", "a-9"), peek(3*second, "acme"), submit(4*second, "acme", "b"),
		done(5*second, "acme", "a-1"), submit(6*second, "acme", "c", "d", "e"), peek(7*second, "acme"))
	add("what is past its lease has no turn", loaded(3, 2, 8, 32), hour,
		submit(0, "acme", batch("a", 9)...), submit(30*minute, "acme", "b", "c"), submit(61*minute, "acme", "d"), peek(62*minute, "acme"))
}

// tableCases are about policies of fewer levels than nine.
func tableCases(add adder) {
	add("three levels", vectors.Policy{Thresholds: []int64{-2, -4}, Interval: interval}, lease,
		submit(0, "acme", batch("a", 34)...), peek(second, "acme"))
	add("two levels by count and four by load", vectors.Policy{Thresholds: []int64{-2}, Interval: interval, Loads: []float64{1, 5, 20}}, lease,
		submit(0, "acme", batch("a", 6)...), peek(second, "acme"), next(2*second, "acme", 3), peek(3*second, "acme"))
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
