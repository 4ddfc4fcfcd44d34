package simulation

import "time"

// realQueues are those of what real queues have: accounts of many users, customers who want their
// documents in order, and documents that are due later.
func realQueues() []Scenario {
	manyIDs := func(d *drawing) {
		d.steady(200, 1, 0.6)
		d.ids = 100
		d.within("acme", func() { d.flood(10_000, 0) })
	}
	accounts, order, delay := contenders("+accounts"), contenders("+order"), contenders("+delay")
	return []Scenario{
		{
			Name:       "many-ids",
			Summary:    "as steady-flood, but 100 users of one account send the 10,000 documents",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: othersP99}},
			build:      manyIDs,
		},
		{
			Name:       "behind-ids",
			Summary:    "as many-ids, and five minutes later another customer uploads 2,000 documents",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: secondMean}},
			build:      func(d *drawing) { manyIDs(d); d.burst(Second, 2000, warmUp+5*time.Minute) },
		},
		{
			Name:       "colleagues",
			Summary:    "200 steady customers (Zipf 1.0) at 55 % load and 20 equal users of an account at 5 %; one more of its users uploads 10,000 documents at once",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: usersP99}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.55)
				d.within("acme", func() { d.users(20, 0.05); d.flood(10_000, 0) })
			},
		},
		{
			Name:       "second-colleague",
			Summary:    "as second-flood, but both are users of one account",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: secondMean}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.within("acme", func() { d.flood(10_000, 0); d.burst(Second, 2000, warmUp+5*time.Minute) })
			},
		},
		{
			Name:       "big-account",
			Summary:    "100 equal users of an account at 30 % load and 200 customers (Zipf 1.0) at another 30 %; one more uploads 10,000 documents at once",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: usersP99}},
			build: func(d *drawing) {
				d.within("acme", func() { d.users(100, 0.3) })
				d.steady(200, 1, 0.3)
				d.flood(10_000, 0)
			},
		},
		{
			Name:       "overload-ids",
			Summary:    "20 accounts at 150 % load, of which 19 send half, alike, and the other one by 100 users: an equal share is a third of what it sends",
			Schedulers: accounts,
			Figures:    []Figure{{Measure: Users + "_served"}},
			build: func(d *drawing) {
				d.steady(19, 0, 0.75)
				d.within("acme", func() { d.users(100, 0.75) })
				d.measure(warmUp, time.Hour)
			},
		},
		{
			Name:       "own-order",
			Summary:    "200 steady customers (Zipf 1.0) at 60 % load; for 40 minutes one more sends 1,000 documents at once, and then 50 every 20 s",
			Schedulers: order,
			Figures:    []Figure{{Measure: Flooder + "_wait_max_s"}, {Measure: Flooder + "_overtaken"}, {Measure: othersP99}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.6)
				d.measure(warmUp, time.Hour)
				d.slices(Flooder, 1000, 50, 20*time.Second, 120)
			},
		},
		{
			Name: "scheduled",
			Summary: "as steady-flood, but a tenth of the steady customers' documents are enqueued one to four hours before they are due, " +
				"and one who sends 2 % of the load has 500 for the night",
			Schedulers: delay,
			Figures:    []Figure{{Measure: othersP99}, {Measure: Planner + "_wait_p99_s"}},
			build: func(d *drawing) {
				d.warmUp, d.ahead = 6*time.Hour, 0.1
				d.steady(200, 1, 0.58)
				d.planner(0.02, 500, d.warmUp-time.Minute, d.warmUp+8*time.Hour)
				d.flood(10_000, 0)
			},
		},
		{
			Name:       "night",
			Summary:    "200 steady customers (Zipf 1.0) and one more at 60 % load; 500 documents that the one enqueued an hour ago are due at once",
			Schedulers: delay,
			Figures:    []Figure{{Measure: othersP99}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.59)
				d.planner(0.01, 500, warmUp-time.Hour, warmUp)
				d.measure(warmUp, 10*time.Minute)
			},
		},
		{
			Name:       "slices",
			Summary:    "200 steady customers (Zipf 1.0) at 20 % load; two more upload 10,000 documents, the second one in slices of 2,000 every 181 s",
			Schedulers: []string{FirstCome, ByHand, Stride, SQSFair, Submit, SubmitTurns},
			Figures:    []Figure{{Measure: finishedRatio}},
			build: func(d *drawing) {
				d.steady(200, 1, 0.2)
				d.flood(10_000, 0)
				d.slices(Second, 2000, 2000, 181*time.Second, 4)
			},
		},
	}
}

// contenders are what is compared where an option of the module's helps.
func contenders(option string) []string {
	return []string{FirstCome, ByHand, Stride, SQSFair, Submit, Submit + option, SubmitTurns, SubmitTurns + option}
}
