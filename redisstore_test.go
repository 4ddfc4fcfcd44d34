package priority_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// backends are all kinds of store, and of client under a RedisStore.
var backends = []struct {
	name  string
	start func(t *testing.T) opener
}{
	{"MemoryStore", func(*testing.T) opener { return openMemory }},
	{"miniredis", func(*testing.T) opener { return openMiniredis }},
	{"Client", func(t *testing.T) opener {
		client := redistest.Start(t).Client()
		return onServer(client, client)
	}},
	{"UniversalClient", func(t *testing.T) opener {
		client := redis.NewUniversalClient(&redis.UniversalOptions{Addrs: []string{redistest.Start(t).Addr}})
		t.Cleanup(func() { _ = client.Close() })
		return onServer(client, client)
	}},
	{"AutoPipeline", func(t *testing.T) opener {
		client := redistest.Start(t).Client()
		return onServer(must(client.AutoPipeline())(t), client)
	}},
	{"AsyncAutoPipeline", func(t *testing.T) opener {
		client := redistest.Start(t).Client()
		return onServer(must(client.AsyncAutoPipeline())(t), client)
	}},
	{"Ring", func(t *testing.T) opener {
		client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
			"one": redistest.Start(t).Addr, "two": redistest.Start(t).Addr,
		}})
		t.Cleanup(func() { _ = client.Close() })
		return onServer(client, client)
	}},
	{"ClusterClient", func(t *testing.T) opener {
		client := redistest.StartCluster(t, 3).Client()
		return onServer(client, client)
	}},
	{"cluster AutoPipeline", func(t *testing.T) opener {
		client := redistest.StartCluster(t, 3).Client()
		return onServer(must(client.AutoPipeline())(t), client)
	}},
}

// must returns a value, or fails the test on its error.
func must[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// TestStore holds every store to the same contract.
func TestStore(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			testStore(t, backend.start(t))
		})
	}
}

// onEachStore runs a test on the first three backends, where the kind of client
// makes no difference.
func onEachStore(t *testing.T, test func(t *testing.T, open opener)) {
	for _, backend := range backends[:3] {
		t.Run(backend.name, func(t *testing.T) {
			t.Parallel()
			test(t, backend.start(t))
		})
	}
}

// contract is the contract of a Store. Its intervals are so long that on a real
// server nothing expires by itself.
var contract = []struct {
	name string
	run  func(t *testing.T, open opener)
}{
	{"Next", testNext},
	{"NextN", testNextN},
	{"NextEach", testNextEach},
	{"Peek", testPeek},
	{"Reset", testReset},
	{"SinceLastUpdate", testSinceLastUpdate},
	{"SinceLastReset", testSinceLastReset},
	{"custom policies", testCustomPolicies},
	{"longest interval", testLongestInterval},
	{"tiers", testTiers},
	{"odd customers", testOddCustomers},
	{"nothing to count", testNothingToCount},
	{"bad input", testBadInput},
}

func testStore(t *testing.T, open opener) {
	for _, test := range contract {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, open)
		})
	}
}

func testNext(t *testing.T, open opener) {
	w := open(t, rule{})
	for count := int64(0); count >= -40; count-- {
		w.next(t, "acme", counted(count))
	}
	w.next(t, "globex", counted(0))
	w.next(t, "acme", counted(-41))
}

func testNextN(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextN(t, "acme", 1, counted(0))
	w.nextN(t, "acme", 3, counted(-1), counted(-2), counted(-3))
	w.next(t, "acme", counted(-4))
	w.wait(quiet)
	w.nextN(t, "acme", 2, counted(-5), counted(-6))
	w.wait(quiet + time.Millisecond)
	w.nextN(t, "acme", 40, countdown(0, 40)...)
	w.next(t, "acme", counted(-40))

	// All of the documents have what is left of the interval.
	w = open(t, rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}})
	w.next(t, "acme", counted(0))
	w.wait(1000 * time.Second)
	w.nextN(t, "acme", 2, left(500*time.Second, counted(-1)), left(500*time.Second, counted(-2)))
}

// countdown is n of the default policy's decisions from a count down.
func countdown(from int64, n int) []priority.Decision {
	decisions := make([]priority.Decision, n)
	for i := range decisions {
		decisions[i] = counted(from - int64(i))
	}
	return decisions
}

// left is a decision with a part of the interval left.
func left(d time.Duration, decision priority.Decision) priority.Decision {
	decision.ResetIn = d
	return decision
}

func testNextEach(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextEach(t, []string{"acme"}, counted(0))
	w.nextEach(t, []string{"globex", "acme", "initech", "acme", "acme", "globex"},
		counted(0), counted(-1), counted(0), counted(-2), counted(-3), counted(-1))
	w.wait(quiet)
	w.next(t, "acme", counted(-4))
	w.wait(time.Millisecond)
	// Some start afresh and some do not.
	w.nextEach(t, []string{"acme", "globex", "globex", "acme", "initech"},
		counted(-5), counted(0), counted(-1), counted(-6), counted(0))

	// So many that they are on every node of a cluster, most of them twice.
	var customers []string
	var want []priority.Decision
	for i := range 300 {
		customers = append(customers, fmt.Sprint("customer ", i%180))
		want = append(want, counted(-int64(i/180)))
	}
	w.nextEach(t, customers, want...)
}

func testPeek(t *testing.T, open opener) {
	unknown := priority.Decision{Level: 1}
	w := open(t, rule{})
	w.peek(t, "acme", unknown)
	w.peek(t, "acme", unknown)
	w.nextN(t, "acme", 30, countdown(0, 30)...)
	w.peek(t, "acme", counted(-29))
	w.peek(t, "globex", unknown)
	w.wait(1000 * time.Second)
	w.peek(t, "acme", left(500*time.Second, counted(-29)))
	w.wait(500 * time.Second)
	w.peek(t, "acme", left(0, counted(-29)))
	w.next(t, "acme", counted(-30)) // as if nobody had looked
	w.wait(quiet + time.Millisecond)
	w.peek(t, "acme", unknown)
	w.next(t, "acme", counted(0))
	w.reset(t, "acme")
	w.peek(t, "acme", unknown)
}

func testReset(t *testing.T, open opener) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		w := open(t, rule{policy: priority.Policy{ResetMode: mode}})
		w.reset(t, "acme") // nothing to forget
		w.nextN(t, "acme", 25, countdown(0, 25)...)
		w.next(t, "globex", counted(0))
		w.wait(1000 * time.Second)
		w.reset(t, "acme")
		w.nextN(t, "acme", 2, countdown(0, 2)...) // with a whole interval again
		w.peek(t, "globex", left(500*time.Second, counted(0)))

		// A count that nothing was added to for nearly the interval.
		w.wait(quiet - time.Millisecond)
		w.next(t, "globex", counted(0))
		w.reset(t, "acme")
		w.peek(t, "acme", priority.Decision{Level: 1})
		w.next(t, "acme", counted(0))
	}
}

// visit is a document after a pause.
type visit struct {
	pause time.Duration
	want  priority.Decision
}

func (w *world) visits(t *testing.T, customer string, visits ...visit) {
	t.Helper()
	for _, v := range visits {
		w.wait(v.pause)
		w.next(t, customer, v.want)
	}
}

func testSinceLastUpdate(t *testing.T, open opener) {
	const ms = time.Millisecond
	w := open(t, rule{})
	w.visits(t, "acme",
		visit{0, counted(0)},
		visit{0, counted(-1)},
		visit{quiet - ms, counted(-2)},
		visit{quiet, counted(-3)},
		visit{quiet + ms, counted(0)},
		visit{quiet, counted(-1)},
		visit{10 * quiet, counted(0)},
	)
	// Who never pauses for the interval is never reset.
	for count := int64(-1); count >= -30; count-- {
		w.visits(t, "acme", visit{quiet, counted(count)})
	}
}

func testSinceLastReset(t *testing.T, open opener) {
	const ms = time.Millisecond
	w := open(t, rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}})
	w.visits(t, "acme",
		visit{0, counted(0)},
		visit{0, counted(-1)},
		visit{quiet / 3, left(quiet*2/3, counted(-2))},
		visit{quiet / 3, left(quiet/3, counted(-3))},
		visit{quiet/3 - ms, left(ms, counted(-4))},
		visit{ms, left(0, counted(-5))},
		visit{ms, counted(0)},
		visit{quiet, left(0, counted(-1))},
		visit{quiet, counted(0)},
	)
	// Who never pauses is reset all the same: here with each eleventh document.
	w.reset(t, "globex")
	for i := range int64(33) {
		into := time.Duration(i%11) * quiet / 10
		w.visits(t, "globex", visit{0, left(quiet-into, counted(-(i % 11)))})
		w.wait(quiet / 10)
		if i%11 == 10 {
			w.wait(ms)
		}
	}
}

func testCustomPolicies(t *testing.T, open opener) {
	for _, edge := range edgePolicies {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			policy := priority.Policy{Thresholds: edge.thresholds, ResetInterval: 2 * time.Hour, ResetMode: mode}
			w := open(t, rule{policy: policy})
			decided := func(count int64) priority.Decision {
				return priority.Decision{Level: policy.Level(count), Count: count, ResetIn: 2 * time.Hour}
			}
			w.peek(t, "acme", left(0, decided(0)))
			for count := int64(0); count > -20; count-- {
				w.next(t, "acme", decided(count))
				w.peek(t, "acme", decided(count))
			}
			var rest []priority.Decision
			for count := int64(-20); count > -300; count-- {
				rest = append(rest, decided(count))
			}
			w.nextN(t, "acme", len(rest), rest...)
			w.nextEach(t, []string{"acme", "globex"}, decided(-300), decided(0))
			w.wait(2 * time.Hour)
			last := decided(-1)
			if mode == priority.SinceLastReset {
				last.ResetIn = 0
			}
			w.next(t, "globex", last)
			w.wait(2*time.Hour + time.Millisecond)
			w.next(t, "globex", decided(0))
		}
	}
}

func testLongestInterval(t *testing.T, open opener) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		w := open(t, rule{policy: priority.Policy{ResetInterval: longestInterval, ResetMode: mode}})
		w.next(t, "acme", left(longestInterval, counted(0)))
		w.next(t, "acme", left(longestInterval, counted(-1)))
		w.peek(t, "acme", left(longestInterval, counted(-1)))
	}
}

func testTiers(t *testing.T, open opener) {
	const gold = 3 * time.Hour
	w := open(t, rule{
		policy: priority.Policy{Thresholds: []int64{-1}, ResetInterval: time.Hour},
		tiers: map[string]priority.Policy{
			"gold":   {Thresholds: []int64{-3}, ResetInterval: gold, ResetMode: priority.SinceLastReset},
			"silver": {}, // all of it the default
		},
		tierOf: func(customer string) string {
			tier, _, _ := strings.Cut(customer, " ")
			return tier
		},
	})
	decided := func(level priority.Level, count int64, resetIn time.Duration) priority.Decision {
		return priority.Decision{Level: level, Count: count, ResetIn: resetIn}
	}
	for count, want := range []struct{ other, gold, silver priority.Level }{
		{1, 1, 1}, {1, 1, 1}, {2, 1, 1}, {2, 1, 2}, {2, 2, 2}, {2, 2, 3},
	} {
		count := -int64(count)
		w.next(t, "acme", decided(want.other, count, time.Hour))
		w.next(t, "bronze acme", decided(want.other, count, time.Hour)) // no such tier
		w.nextEach(t, []string{"gold acme", "silver acme"},
			decided(want.gold, count, gold), decided(want.silver, count, quiet))
	}
	w.nextN(t, "gold acme", 1, decided(2, -6, gold))
	w.peek(t, "gold acme", decided(2, -6, gold))

	w.wait(quiet + time.Millisecond) // silver is over, the others are not
	w.peek(t, "silver acme", decided(1, 0, 0))
	w.nextEach(t, []string{"acme", "silver acme", "gold acme"},
		decided(2, -6, time.Hour), decided(1, 0, quiet), decided(2, -7, gold-quiet-time.Millisecond))
	w.wait(gold - quiet) // gold is over, though it had documents in between
	w.next(t, "gold acme", decided(1, 0, gold))

	// Its interval is the longest, whatever others do in the meantime.
	for left := gold; left > 0; left -= gold / 20 {
		w.peek(t, "gold acme", decided(1, 0, left))
		w.wait(gold / 20)
		if _, err := w.Next(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
	}
	w.next(t, "gold acme", decided(1, -1, 0))
}

func testOddCustomers(t *testing.T, open opener) {
	// A tier of their own for half of them: it must be looked up by the customer
	// as given.
	w := open(t, rule{
		tiers:  map[string]priority.Policy{"odd": {Thresholds: []int64{}}},
		tierOf: func(customer string) string { return []string{"", "odd"}[slices.Index(oddCustomers, customer)%2] },
	})
	for i, customer := range oddCustomers {
		want := countdown(0, i+1)
		for j := range want {
			if i%2 == 1 {
				want[j].Level = 1
			}
		}
		w.nextN(t, customer, i+1, want...)
	}
	w.wait(500 * time.Second)
	var want []priority.Decision
	for i, customer := range oddCustomers {
		decision := counted(-int64(i))
		if i%2 == 1 {
			decision.Level = 1
		}
		w.peek(t, customer, left(1000*time.Second, decision))
		decision = counted(-int64(i + 1))
		if i%2 == 1 {
			decision.Level = 1
		}
		want = append(want, decision)
	}
	w.nextEach(t, oddCustomers, want...)
	// Each is forgotten alone.
	for i, customer := range oddCustomers {
		if i%3 == 0 {
			w.reset(t, customer)
			want[i] = priority.Decision{Level: 1}
		}
	}
	for i, customer := range oddCustomers {
		w.peek(t, customer, want[i])
	}
}

func testNothingToCount(t *testing.T, open opener) {
	w := open(t, rule{})
	w.next(t, "acme", counted(0))
	for _, customers := range [][]string{nil, {}} {
		if got, err := w.NextEach(t.Context(), customers); got != nil || err != nil {
			t.Errorf("NextEach(%#v) = %v, %v, want nil, nil", customers, got, err)
		}
	}
	if got, err := w.NextN(t.Context(), "acme", 0); len(got) != 0 || err != nil {
		t.Errorf("NextN of none = %v, %v", got, err)
	}
	w.nextN(t, "globex", 0)
	w.peek(t, "globex", priority.Decision{Level: 1})
	w.next(t, "acme", counted(-1))
}

// invalidCustomers are what no call takes, and what the error's message must show.
var invalidCustomers = []struct{ customer, shown string }{
	{"", "empty"},
	{strings.Repeat("x", 513), "513"},
	{strings.Repeat("ü", 257), "514"},
	{strings.Repeat("\x00", 100_000), "100000"},
}

func testBadInput(t *testing.T, open opener) {
	w := open(t, rule{})
	for _, bad := range invalidCustomers {
		calls := map[string]func() error{
			"Next":     func() error { _, err := w.Next(t.Context(), bad.customer); return err },
			"NextN":    func() error { _, err := w.NextN(t.Context(), bad.customer, 2); return err },
			"NextEach": func() error { _, err := w.NextEach(t.Context(), []string{bad.customer}); return err },
			"Peek":     func() error { _, err := w.Peek(t.Context(), bad.customer); return err },
			"Reset":    func() error { return w.Reset(t.Context(), bad.customer) },
		}
		for name, call := range calls {
			if wantInvalid(t, call(), priority.ErrInvalidCustomer, bad.shown); t.Failed() {
				t.Fatalf("%s of %d bytes", name, len(bad.customer))
			}
		}

		// One bad entry among good ones: none is counted, and the message tells
		// which it is.
		customers := slices.Repeat([]string{"acme", "globex"}, 700)
		customers[1234] = bad.customer
		got, err := w.NextEach(t.Context(), customers)
		wantInvalid(t, err, priority.ErrInvalidCustomer, bad.shown)
		wantInvalid(t, err, priority.ErrInvalidCustomer, "1234")
		if len(got) != 0 {
			t.Errorf("%d decisions beside the error %v", len(got), err)
		}
	}
	for n, shown := range map[int]string{
		-1: "-1", -1_000_000: "-1000000", 1_000_001: "1000001",
	} {
		got, err := w.NextN(t.Context(), "acme", n)
		wantInvalid(t, err, priority.ErrInvalidCount, shown)
		if len(got) != 0 {
			t.Errorf("NextN of %d: %d decisions beside the error %v", n, len(got), err)
		}
	}
	got, err := w.NextEach(t.Context(), slices.Repeat([]string{"acme"}, 1_000_001))
	wantInvalid(t, err, priority.ErrInvalidCount, "1000001")
	if len(got) != 0 {
		t.Errorf("NextEach of too many: %d decisions beside the error %v", len(got), err)
	}
	w.nextEach(t, []string{"acme", "globex"}, counted(0), counted(0)) // nothing was counted
}

// TestMostDocuments counts as many documents as one call may.
func TestMostDocuments(t *testing.T) {
	t.Parallel()
	onEachStore(t, func(t *testing.T, open opener) {
		w := open(t, rule{})
		w.next(t, "acme", counted(0))
		w.nextN(t, "acme", 1_000_000, countdown(-1, 1_000_000)...)
		w.next(t, "acme", counted(-1_000_001))
	})
}

// TestInvalidOptions gives the constructors what they must refuse.
func TestInvalidOptions(t *testing.T) {
	client := redis.NewClient(&redis.Options{})
	defer client.Close()
	tierOf := func(string) string { return "gold" }

	type options struct {
		rule
		prefix string
	}
	tests := map[string]struct {
		options
		kind  error
		shown string
	}{
		"tiers without TierOf": {options{rule: rule{tiers: map[string]priority.Policy{"gold": {}}}}, priority.ErrInvalidOption, "TierOf"},
		"prefix with {":        {options{prefix: "a{b"}, priority.ErrInvalidOption, "a{b"},
		"prefix with }":        {options{prefix: "a}b"}, priority.ErrInvalidOption, "a}b"},
	}
	for _, invalid := range invalidPolicies {
		test := tests[""]
		test.kind, test.shown = priority.ErrInvalidPolicy, invalid.shown
		test.policy = invalid.policy
		tests[invalid.name] = test
		test.policy = priority.Policy{}
		test.tiers, test.tierOf = map[string]priority.Policy{"silver": {}, "gold": invalid.policy}, tierOf
		tests[invalid.name+" in a tier"] = test
		test.shown = "gold"
		tests[invalid.name+" in a named tier"] = test
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			store, err := priority.NewRedisStore(client, &priority.RedisOptions{
				Policy: test.policy, Tiers: test.tiers, TierOf: test.tierOf, Prefix: test.prefix,
			})
			wantInvalid(t, err, test.kind, test.shown)
			if store != nil {
				t.Error("a store beside the error")
			}
			if test.prefix != "" {
				return
			}
			memory, err := priority.NewMemoryStore(&priority.MemoryOptions{
				Policy: test.policy, Tiers: test.tiers, TierOf: test.tierOf,
			})
			wantInvalid(t, err, test.kind, test.shown)
			if memory != nil {
				t.Error("a store beside the error")
			}
		})
	}

	t.Run("nil client", func(t *testing.T) {
		for name, client := range map[string]priority.RedisClient{
			"nil":                nil,
			"nil *Client":        (*redis.Client)(nil),
			"nil *ClusterClient": (*redis.ClusterClient)(nil),
		} {
			store, err := priority.NewRedisStore(client, nil)
			wantInvalid(t, err, priority.ErrInvalidOption, "nil")
			if store != nil {
				t.Errorf("%s: a store beside the error", name)
			}
		}
	})
}
