package vectors_test

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
func edgeCases() []vector { return append(countCases(), historyCases()...) }

// countCases are those about the key of the count.
func countCases() []vector {
	return inBothModes(func(add func(string, policyOf, int64, ...step), mode string) {
		for _, value := range []string{tooLarge, tooSmall, "9223372036854775807", "-9223372036854775808", "many"} {
			add("no count: "+value, standard, lease,
				set(0, "acme", value, 1000), next(1, "acme", 1).fails(), next(2, "acme", 3).fails(), submit(3, "acme", "a").fails(),
				peek(6, "acme").fails(),
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
			peek(0, "acme").wants(9, -999999999999999, 0, interval))
		add("the last count, by submit", standard, lease,
			set(0, "acme", beforeEnd, interval), submit(0, "acme", "a", "b").fails(),
			submit(0, "acme", "a").wants(1, -999999999999999, 1, interval),
			submit(0, "acme", "b").fails(), submit(0, "acme", "a").wants(1, -999999999999999, 1, interval),
			peek(0, "acme").wants(1, -999999999999999, 1, interval))

		for _, way := range []struct {
			name   string
			counts func(at, resetIn int64) step
		}{
			{"next", func(at, resetIn int64) step { return next(at, "acme", 1).wants(3, -5, 0, resetIn) }},
			{"submit", func(at, resetIn int64) step { return submit(at, "acme", "a").wants(1, -5, 1, resetIn) }},
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
	})
}

// historyCases are those of edges.json about the other two keys. The reset mode does
// not matter to them.
func historyCases() (all []vector) {
	add := func(name string, lease int64, steps ...step) {
		policy := standard
		policy.Mode = sinceLastUpdate
		all = append(all, vector{Name: name, Policy: policy, Lease: lease, Steps: steps})
	}
	usage := func(at int64, value string, ttl int64) step { return set(at, "acme", value, ttl).of("usage") }

	for _, value := range []string{"", "0", "01000", "many", "-1", "1.5", " 1000", "1e3", "1000000000000000"} {
		add("no usage: "+value, lease,
			usage(0, value, 2*day), submit(1, "acme", "a", "b").failsWith("CORRUPTUSAGE"), done(2, "acme", "a").failsWith("CORRUPTUSAGE"),
			done(3, "acme", "a").cost(2000).failsWith("CORRUPTUSAGE"), peek(4, "acme").failsWith("CORRUPTUSAGE"),
			next(5, "acme", 1).wants(1, 0, 0, interval), next(6, "acme", 1).wants(1, -1, 0, interval),
			reset(7, "acme"), submit(8, "acme", "a").wants(1, 0, 1, interval), peek(9, "acme").wants(1, 0, 1, interval-1).madeOf(100, 1, 1000, day))
	}
	add("no pending documents: many", lease,
		set(0, "acme", "many", minute).of("pending"), submit(1, "acme", "a").failsWith("CORRUPTPENDING"),
		done(2, "acme", "a").failsWith("CORRUPTPENDING"), peek(3, "acme").failsWith("CORRUPTPENDING"),
		next(4, "acme", 1).wants(1, 0, 0, interval), reset(5, "acme"), submit(6, "acme", "a").wants(1, 0, 1, interval))

	add("usage, cost and the time that documents take", lease,
		usage(0, "600002500", 4*day), peek(0, "acme").wants(1, 0, 0, 0).madeOf(800, 0, 2500, 20*minute),
		submit(second, "acme", "a").wants(3, 0, 1, interval), peek(2*second, "acme").wants(3, 0, 1, interval-second).madeOf(900, 1, 2500, 20*minute),
		peek(3*second, "acme").leased(minute).wants(3, 0, 1, interval-2*second).madeOf(900, 1, 2500, minute),
		done(31*second, "acme", "a").cost(5000), // (9 × 600 + 300) ÷ 10 and (9 × 2500 + 5000) ÷ 10
		peek(31*second, "acme").wants(1, 0, 0, interval-30*second).madeOf(900, 0, 2750, 1140*second),
		done(32*second, "acme", "a").cost(5000), peek(33*second, "acme").wants(1, 0, 0, interval-32*second).madeOf(900, 0, 2750, 1140*second),
		peek(3*day, "acme").wants(1, 0, 0, 0).madeOf(113, 0, 2750, 1140*second), peek(5*day, "acme").wants(1, 0, 0, 0).madeOf(0, 0, 1000, day))
	for _, test := range []struct {
		value string
		lease int64
	}{
		{"1000", day}, {"1001000", 3 * minute}, {"89001000", 3 * minute}, {"91001000", 182 * second},
		{"43199001000", day - 2*second}, {"43201001000", day}, {"999999999001000", day},
	} {
		add("the lease of "+test.value, lease,
			usage(0, test.value, day), peek(1, "acme").wants(1, 0, 0, 0).madeOf(100, 0, 1000, test.lease),
			peek(2, "acme").leased(hour).wants(1, 0, 0, 0).madeOf(100, 0, 1000, min(test.lease, hour)),
			peek(3, "acme").leased(minute).wants(1, 0, 0, 0).madeOf(100, 0, 1000, minute))
	}
	add("a usage without a TTL counts as none and is given one", lease,
		usage(0, "600002500", 0), peek(0, "acme").wants(1, 0, 0, 0).madeOf(0, 0, 2500, 20*minute),
		submit(second, "acme", "a", "b", "c").wants(1, 0, 1, interval).wants(2, -1, 2, interval).wants(2, -2, 3, interval),
		peek(second, "acme").wants(2, -2, 3, interval).madeOf(300, 3, 2500, 20*minute),
		peek(day+second, "acme").wants(1, 0, 0, 0).madeOf(150, 0, 2500, 20*minute),
		peek(3*day, "acme").wants(1, 0, 0, 0).madeOf(0, 0, 1000, day))
	add("a Done gives a usage no TTL and changes none", lease,
		usage(0, "1000", 2*day), submit(0, "acme", "a", "b").wants(2, 0, 1, interval).wants(2, -1, 2, interval),
		usage(0, "1000", 0), done(minute, "acme", "a"), peek(minute, "acme").wants(1, -1, 1, interval-minute).madeOf(0, 1, 1000, 20*minute),
		peek(4*minute, "acme").wants(1, -1, 1, interval-4*minute).madeOf(0, 1, 1000, 20*minute))
	add("more usage than the last level takes is cut", lease,
		usage(0, "1000", 20*day), submit(second, "acme", "a").wants(5, 0, 1, interval),
		peek(second, "acme").wants(5, 0, 1, interval).madeOf(51200, 1, 1000, day),
		submit(3*day+second, "acme", "b").wants(4, 0, 1, interval), peek(3*day+second, "acme").wants(4, 0, 1, interval).madeOf(6500, 1, 1000, day))
	add("only a document that is counted renews a usage", lease,
		submit(0, "acme", "a").wants(1, 0, 1, interval), submit(12*hour, "acme", "a").wants(1, 0, 1, 0),
		peek(12*hour, "acme").wants(1, 0, 1, 0).madeOf(71, 1, 1000, day), submit(25*hour, "acme", "a").wants(1, 0, 1, 0),
		peek(25*hour, "acme").wants(1, 0, 1, 0).madeOf(0, 1, 1000, day), done(26*hour, "acme", "a").cost(2000),
		peek(26*hour, "acme").wants(1, 0, 0, 0).madeOf(0, 0, 1000, day))

	const short, long = minute, 15 * minute
	add("a shorter lease shortens no other", long,
		submit(0, "acme", "a").wants(1, 0, 1, interval),
		submit(second, "acme", "b").leased(short).wants(1, -1, 2, interval),
		submit(2*second, "acme", "a").leased(short).wants(1, -1, 2, interval-second),
		peek(40*second, "acme").wants(1, -1, 2, interval-39*second), peek(40*second, "acme").leased(short).wants(1, -1, 2, interval-39*second),
		peek(90*second, "acme").leased(short).wants(1, -1, 0, interval-89*second), peek(90*second, "acme").wants(1, -1, 2, interval-89*second),
		submit(91*second, "acme", "a").leased(short).wants(2, -2, 1, interval), peek(92*second, "acme").wants(2, -2, 2, interval-second),
		done(93*second, "acme", "b").leased(short), peek(94*second, "acme").wants(2, -2, 1, interval-3*second),
		peek(91*second+long-slip-second, "acme").wants(2, -2, 1, interval-long+slip+second),
		peek(91*second+long+second, "acme").wants(1, -2, 0, interval-long-second))
	add("a longer lease lengthens no other", short,
		submit(0, "acme", "a").leased(long).wants(1, 0, 1, interval), submit(second, "acme", "b").wants(1, -1, 2, interval),
		peek(90*second, "acme").wants(1, -1, 0, interval-89*second), peek(90*second, "acme").leased(long).wants(1, -1, 2, interval-89*second),
		submit(91*second, "acme", "c").wants(2, -2, 1, interval), submit(92*second, "acme", "b").leased(long).wants(2, -2, 3, interval-second))
	return all
}
