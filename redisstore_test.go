package priority_test

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// contract is what every store promises. Its intervals are so long that on a real
// server nothing expires by itself.
var contract = []struct {
	promise string
	keep    func(t *testing.T, open opener)
}{
	{"each document is one down and has the level of its count", eachDocumentIsOneDown},
	{"NextN is as many Nexts", nextNIsAsManyNexts},
	{"NextEach answers in order", nextEachAnswersInOrder},
	{"the count is reset after more than the interval since the last update", resetSinceLastUpdate},
	{"SubmitN is as many Submits", submitNIsAsManySubmits},
	{"Done ends what is pending and nothing else", doneEndsPending},
	{"the longest interval and lease", longestIntervalAndLease},
	{"policies are told with every field", policiesAreTold},
	{"no two customers or documents are mixed up", nothingIsMixedUp},
	{"nothing to do", nothingToDo},
	{"a wrong call counts nothing", wrongCallsCountNothing},
	{"a call whose context has ended changes nothing", endedContextsChangeNothing},
}

// TestEveryStoreKeepsTheContract holds every store to the same promises. What a
// decision is when, the vectors and the random sequences show.
func TestEveryStoreKeepsTheContract(t *testing.T) {
	t.Parallel()
	backends := map[string]func(t *testing.T) opener{
		"memory": func(*testing.T) opener { return openMemory },
		"observe": func(*testing.T) opener {
			return func(t *testing.T, r rule) *world {
				w := openMemory(t, r)
				w.Store = observe.New(w.Store, func(context.Context, observe.Call) {})
				return w
			}
		},
	}
	for name, start := range fleets {
		backends[name] = func(t *testing.T) opener {
			fleet := start(t)
			return onServer(fleet.connect(), fleet.hand)
		}
	}
	backends["miniredis"] = func(*testing.T) opener { return openMiniredis } // whose clock is moved
	for name, start := range backends {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			open := start(t)
			for _, test := range contract {
				t.Run(test.promise, func(t *testing.T) {
					t.Parallel()
					test.keep(t, open)
				})
			}
		})
	}
}

// TestOneCallCountsAMillionDocuments counts as many as one call may.
func TestOneCallCountsAMillionDocuments(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]opener{"memory": openMemory, "miniredis": openMiniredis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := open(t, rule{})
			w.next(t, "acme", counted(0))
			w.nextN(t, "acme", priority.MaxDocuments, countdown(-1, priority.MaxDocuments)...)
			w.next(t, "acme", counted(-1_000_001))
		})
	}
}

const ms = time.Millisecond

var bothModes = []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset}

func eachDocumentIsOneDown(t *testing.T, open opener) {
	w := open(t, rule{})
	for count := int64(0); count >= -40; count-- {
		w.next(t, "acme", counted(count))
	}
	w.next(t, "globex", counted(0))
	w.next(t, "acme", counted(-41))
}

func nextNIsAsManyNexts(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextN(t, "acme", 1, counted(0))
	w.nextN(t, "acme", 3, countdown(-1, 3)...)
	w.next(t, "acme", counted(-4))
	w.wait(quiet)
	w.nextN(t, "acme", 2, countdown(-5, 2)...)
	w.wait(quiet + ms)
	w.nextN(t, "acme", 40, countdown(0, 40)...)
	w.next(t, "acme", counted(-40))

	// All of the documents have what is left of the interval.
	w = open(t, rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}})
	w.next(t, "acme", counted(0))
	w.wait(1000 * time.Second)
	w.nextN(t, "acme", 2, left(500*time.Second, counted(-1)), left(500*time.Second, counted(-2)))
}

func nextEachAnswersInOrder(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextEach(t, []string{"acme"}, counted(0))
	w.nextEach(t, []string{"globex", "acme", "initech", "acme", "acme", "globex"},
		counted(0), counted(-1), counted(0), counted(-2), counted(-3), counted(-1))
	w.wait(quiet)
	w.next(t, "acme", counted(-4))
	w.wait(ms)
	// Some start afresh and some do not.
	w.nextEach(t, []string{"acme", "globex", "globex", "acme", "initech"},
		counted(-5), counted(0), counted(-1), counted(-6), counted(0))

	// So many that they are on every node of a cluster, most of them twice.
	names := customers(180)
	w.nextEach(t, append(names, names[:120]...),
		append(slices.Repeat([]priority.Decision{counted(0)}, 180), slices.Repeat([]priority.Decision{counted(-1)}, 120)...)...)
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

func resetSinceLastUpdate(t *testing.T, open opener) {
	w := open(t, rule{lease: ms})
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
	w.wait(quiet)
	w.submit(t, "acme", "a", held(-31, 1))
	w.wait(quiet + ms)
	w.submit(t, "acme", "b", held(0, 1))
}

func submitNIsAsManySubmits(t *testing.T, open opener) {
	w := open(t, rule{})
	w.submitN(t, "acme", []string{"a"}, held(0, 1))
	w.submitN(t, "acme", []string{"b", "a", "c", "b", "c"},
		held(-1, 2), held(-1, 2), held(-2, 3), held(-2, 3), held(-2, 3))
	w.submitN(t, "acme", []string{"a", "a"}, held(-2, 3), held(-2, 3))
	w.done(t, "acme", "b")
	w.submitN(t, "acme", []string{"a", "b", "b"}, held(-2, 2), held(-3, 3), held(-3, 3))

	// More than any script call takes, some of them pending and some named twice.
	ids := documentIDs("invoice", 334)
	w.submitN(t, "globex", ids[:120], heldEach(0, 1, 120)...)
	want := slices.Repeat([]priority.Decision{held(-119, 120)}, 120)
	want = append(want, heldEach(-120, 121, 214)...)
	want = append(want, slices.Repeat([]priority.Decision{held(-333, 334)}, 334)...)
	w.submitN(t, "globex", append(ids, ids...), want...)
	w.peek(t, "globex", held(-333, 334))

	// All of the documents have what is left of the interval.
	const rest = 500 * time.Second
	w = open(t, rule{policy: priority.Policy{ResetMode: priority.SinceLastReset}, lease: time.Hour})
	w.submit(t, "acme", "a", held(0, 1))
	w.wait(quiet - rest)
	w.submitN(t, "acme", []string{"a", "b", "c"}, left(rest, held(0, 1)), left(rest, held(-1, 2)), left(rest, held(-2, 3)))

	// A pending document comes before one that starts the count afresh.
	w.wait(rest + ms)
	w.submitN(t, "acme", []string{"a", "d", "a"}, held(0, 3), held(0, 4), held(0, 4))
	w.submit(t, "acme", "e", held(-1, 5))

	// Even if the new one is in a later script call, all have its time.
	w.submitN(t, "globex", ids[:60], heldEach(0, 1, 60)...)
	w.wait(quiet + ms)
	w.submitN(t, "globex", append(ids[:60:60], "new"), append(slices.Repeat([]priority.Decision{held(0, 60)}, 60), held(0, 61))...)
}

func doneEndsPending(t *testing.T, open opener) {
	w := open(t, rule{})
	w.done(t, "acme", "a") // of a customer nobody knows
	w.doneN(t, "acme", "a", "b")
	w.peek(t, "acme", none(0))
	w.submitN(t, "acme", []string{"a", "b", "c", "d"}, heldEach(0, 1, 4)...)
	w.submitN(t, "globex", []string{"a", "b"}, heldEach(0, 1, 2)...)
	w.done(t, "acme", "b")
	w.done(t, "acme", "b", "b", "unknown", "B", "a ") // twice, and of none
	w.done(t, "initech", "a")
	w.peek(t, "acme", held(-3, 3))
	w.doneN(t, "acme", "d", "unknown", "b", "d")
	w.doneN(t, "acme", "b", "d")
	w.peek(t, "acme", held(-3, 2))
	w.peek(t, "globex", held(-1, 2))
	w.submit(t, "acme", "b", held(-4, 3)) // done before: a new one
	w.done(t, "acme", "a", "b", "c")
	w.peek(t, "acme", held(-4, 0))
	w.submit(t, "acme", "a", held(-5, 1))

	// It says nothing about the count and its interval.
	w.wait(1000 * time.Second)
	w.submit(t, "initech", "a", held(0, 1))
	w.wait(500 * time.Second)
	w.done(t, "acme", "a")
	w.done(t, "initech", "a")
	w.peek(t, "acme", left(0, held(-5, 0)))
	w.peek(t, "initech", left(1000*time.Second, held(0, 0)))

	// More than any script call takes.
	ids := documentIDs("invoice", 700)
	w.submitN(t, "umbrella", ids, heldEach(0, 1, len(ids))...)
	w.doneN(t, "umbrella", ids[1:]...)
	w.peek(t, "umbrella", held(-699, 1))
	w.doneN(t, "umbrella", ids...)
	w.peek(t, "umbrella", held(-699, 0))
}

func longestIntervalAndLease(t *testing.T, open opener) {
	for _, mode := range bothModes {
		w := open(t, rule{policy: priority.Policy{ResetInterval: longestInterval, ResetMode: mode}, lease: priority.DefaultLease})
		w.next(t, "acme", left(longestInterval, counted(0)))
		w.submit(t, "acme", "a", left(longestInterval, held(-1, 1)))
		w.submit(t, "acme", "b", left(longestInterval, held(-2, 2)))
		w.done(t, "acme", "a")
		w.peek(t, "acme", left(longestInterval, held(-2, 1)))
	}
}

// tiers has two tiers, by the first word of a customer.
func tiers() rule {
	return rule{
		policy: priority.Policy{ResetInterval: time.Hour},
		tiers: map[string]priority.Policy{
			"gold":   {Thresholds: []int64{-3, -4}, ResetInterval: 3 * time.Hour, ResetMode: priority.SinceLastReset},
			"silver": {Thresholds: []int64{-1}},
		},
		tierOf: func(customer string) string {
			tier, _, _ := strings.Cut(customer, " ")
			return tier
		},
		lease: 24 * time.Hour,
	}
}

func policiesAreTold(t *testing.T, open opener) {
	w := open(t, tiers())
	for customer, want := range map[string]priority.Policy{
		"acme":        {Thresholds: priority.DefaultPolicy().Thresholds, ResetInterval: time.Hour},
		"bronze acme": {Thresholds: priority.DefaultPolicy().Thresholds, ResetInterval: time.Hour},
		"gold acme":   {Thresholds: []int64{-3, -4}, ResetInterval: 3 * time.Hour, ResetMode: priority.SinceLastReset},
		"silver acme": {Thresholds: []int64{-1}, ResetInterval: quiet},
	} {
		got := w.PolicyOf(customer)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("PolicyOf(%q) = %+v, want %+v", customer, got, want)
		}
		// What the caller does with the thresholds is the caller's business.
		for i := range got.Thresholds {
			got.Thresholds[i] = 1000
		}
		if again := w.PolicyOf(customer); !reflect.DeepEqual(again, want) {
			t.Errorf("PolicyOf(%q) = %+v after a caller changed it, want %+v", customer, again, want)
		}
		if decision, err := w.Next(t.Context(), customer); err != nil || decision.Level != priority.First {
			t.Errorf("Next(%q) = %+v, %v after a caller changed the policy", customer, decision, err)
		}
	}
	if last := w.Last(); last != 9 {
		t.Errorf("Last() = %d, want 9", last)
	}
	if last := open(t, rule{policy: priority.Policy{Thresholds: []int64{}}}).Last(); last != priority.First {
		t.Errorf("Last() = %d with one level", last)
	}
	if leased, ok := priority.As[interface{ Lease() time.Duration }](w); !ok || leased.Lease() != 24*time.Hour {
		t.Errorf("%T does not tell its lease", w.Store)
	}
}

func nothingIsMixedUp(t *testing.T, open opener) {
	// A tier of their own for half of them: it must be looked up by the customer
	// as given.
	r := rule{
		tiers: map[string]priority.Policy{"odd": {Thresholds: []int64{}}},
		tierOf: func(customer string) string {
			return []string{"", "odd"}[max(0, slices.Index(oddCustomers, customer))%2]
		},
	}
	w := open(t, r)
	decided := func(i int, decision priority.Decision) priority.Decision {
		if i%2 == 1 {
			decision.Level = 1
		}
		return decision
	}
	var want []priority.Decision
	for i, customer := range oddCustomers {
		countdown := countdown(0, i+1)
		for j := range countdown {
			countdown[j] = decided(i, countdown[j])
		}
		w.nextN(t, customer, i+1, countdown...)
		want = append(want, decided(i, counted(-int64(i+1))))
	}
	w.nextEach(t, oddCustomers, want...)
	for i, customer := range oddCustomers {
		w.submit(t, customer, "same", decided(i, held(-int64(i+2), 1)))
		w.submit(t, customer, customer, decided(i, held(-int64(i+3), 2)))
	}
	for i, customer := range oddCustomers { // each is forgotten alone
		if i%3 == 0 {
			w.reset(t, customer)
		} else {
			w.done(t, customer, customer)
		}
	}
	for i, customer := range oddCustomers {
		want := decided(i, held(-int64(i+3), 1))
		if i%3 == 0 {
			want = none(0)
		}
		w.peek(t, customer, want)
	}

	n := len(oddDocuments)
	w.submitN(t, "documents", oddDocuments, heldEach(0, 1, n)...)
	for i, id := range oddDocuments {
		w.submit(t, "documents", id, held(int64(1-n), int64(n-i)))
		w.done(t, "documents", id)
	}
	for i, id := range oddDocuments {
		w.submit(t, "documents", id, held(int64(-n-i), int64(i+1)))
	}
	w.doneN(t, "documents", oddDocuments...)
	w.peek(t, "documents", held(int64(1-2*n), 0))
}

func nothingToDo(t *testing.T, open opener) {
	w := open(t, rule{})
	w.submit(t, "acme", "a", held(0, 1))
	for _, nobody := range [][]string{nil, {}} {
		w.nextEach(t, nobody)
		w.submitN(t, "acme", nobody)
		w.submitN(t, "globex", nobody)
		w.doneN(t, "acme", nobody...)
	}
	w.nextN(t, "acme", 0)
	w.nextN(t, "globex", 0)
	w.peek(t, "globex", none(0))
	w.peek(t, "acme", held(0, 1))
}

// invalidNames are what no call takes for a customer or a document, and what the
// error's message must show.
var invalidNames = []struct{ name, shown string }{
	{"", "0 bytes"},
	{strings.Repeat("x", 513), "513"},
	{strings.Repeat("ü", 257), "514"},
	{strings.Repeat("\x00", 100_000), "100000"},
}

func wrongCallsCountNothing(t *testing.T, open opener) {
	ctx := t.Context()
	w := open(t, rule{})
	w.submit(t, "acme", "a", held(0, 1))
	for _, bad := range invalidNames {
		calls := everyCall(t, w, bad.name, "a")
		calls["NextN of none"] = func() error { _, err := w.NextN(ctx, bad.name, 0); return err }
		calls["SubmitN of none"] = func() error { _, err := w.SubmitN(ctx, bad.name, nil, nil); return err }
		calls["DoneN of none"] = func() error { return w.DoneN(ctx, bad.name, nil, 0) }
		for name, call := range calls {
			if wantInvalid(t, call(), priority.ErrInvalidCustomer, bad.shown); t.Failed() {
				t.Fatalf("%s of a customer of %d bytes", name, len(bad.name))
			}
		}
		for name, call := range documentCalls(t, w, "acme", bad.name) {
			if wantInvalid(t, call(), priority.ErrInvalidDocument, bad.shown); t.Failed() {
				t.Fatalf("%s of a document of %d bytes", name, len(bad.name))
			}
		}

		// One bad entry among good ones: nothing is done, and the message tells
		// which it is.
		names := slices.Repeat([]string{"acme", "globex"}, 700)
		names[1234] = bad.name
		each, err := w.NextEach(ctx, names)
		wantInvalid(t, err, priority.ErrInvalidCustomer, "1234")
		names[0] = "a"
		many, err := w.SubmitN(ctx, "acme", names, nil)
		wantInvalid(t, err, priority.ErrInvalidDocument, "1234")
		wantInvalid(t, w.DoneN(ctx, "acme", names, 0), priority.ErrInvalidDocument, "1234")
		if len(each)+len(many) != 0 {
			t.Error("decisions beside the error of a wrong call")
		}
	}

	for n, shown := range map[int]string{-1: "-1", -1_000_000: "-1000000", 1_000_001: "1000001"} {
		_, err := w.NextN(ctx, "acme", n)
		wantInvalid(t, err, priority.ErrInvalidCount, shown)
	}
	many := slices.Repeat([]string{"acme"}, priority.MaxDocuments+1)
	_, each := w.NextEach(ctx, many)
	_, submitN := w.SubmitN(ctx, "acme", many, nil)
	for _, err := range []error{each, submitN, w.DoneN(ctx, "acme", many, 0)} {
		wantInvalid(t, err, priority.ErrInvalidCount, "1000001")
	}
	wantInvalid(t, w.Done(ctx, "acme", "a", -time.Second), priority.ErrInvalidOption, "-1s")
	wantInvalid(t, w.DoneN(ctx, "acme", []string{"a"}, -time.Second), priority.ErrInvalidOption, "-1s")
	w.submit(t, "acme", "b", held(-1, 2)) // nothing came of all that
	w.peek(t, "globex", none(0))
}

func endedContextsChangeNothing(t *testing.T, open opener) {
	w := open(t, rule{})
	w.submit(t, "acme", "a", held(0, 1))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, next := w.Next(ctx, "acme")
	nexts, nextN := w.NextN(ctx, "acme", 3)
	each, nextEach := w.NextEach(ctx, []string{"acme", "globex"})
	_, submit := w.Submit(ctx, "acme", "b", 0)
	submits, submitN := w.SubmitN(ctx, "acme", []string{"b", "c"}, nil)
	doneN := w.DoneN(ctx, "acme", []string{"a", "b"}, 0)
	_, peek := w.Peek(ctx, "acme")
	done, reset := w.Done(ctx, "acme", "a", 0), w.Reset(ctx, "acme")
	for _, err := range []error{next, nextN, nextEach, submit, submitN, done, doneN, peek, reset} {
		wantClass(t, err, priority.ErrNotCounted)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error = %v, want context.Canceled in it", err)
		}
	}
	for _, err := range []error{nextEach, submitN, doneN} {
		wantBatchError(t, err, 2, map[int]error{0: context.Canceled, 1: context.Canceled})
	}
	if len(nexts) != 0 || len(each) != 2 || len(submits) != 2 {
		t.Errorf("beside the errors %d, %d, %d decisions; want none, and one an entry", len(nexts), len(each), len(submits))
	}
	w.peek(t, "acme", held(0, 1))
}

// TestConstructorsRefuseWhatCannotWork gives NewRedisStore and memory.New what they must refuse.
func TestConstructorsRefuseWhatCannotWork(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	gold := func(policy priority.Policy) rule {
		return rule{tiers: map[string]priority.Policy{"silver": {}, "gold": policy}, tierOf: func(string) string { return "gold" }}
	}
	type refused struct {
		name  string
		rule  rule
		kind  error
		shown []string
	}
	tests := []refused{
		{"tiers without TierOf", rule{tiers: map[string]priority.Policy{"gold": {}}}, priority.ErrInvalidOption, []string{"TierOf"}},
		{"a tier of ten levels", gold(priority.Policy{Thresholds: descending(0, 9)}), priority.ErrInvalidPolicy, []string{`"gold"`, "10", "9"}},
		{"negative lease", rule{lease: -time.Second}, priority.ErrInvalidOption, []string{"Lease -1s"}},
		{"lease below 1 ms", rule{lease: time.Microsecond}, priority.ErrInvalidOption, []string{"Lease 1µs"}},
		{"lease of no whole ms", rule{lease: time.Second + time.Microsecond}, priority.ErrInvalidOption, []string{"Lease 1.000001s"}},
	}
	for _, invalid := range invalidPolicies {
		tests = append(tests,
			refused{invalid.name, rule{policy: invalid.policy}, priority.ErrInvalidPolicy, []string{invalid.shown}},
			refused{invalid.name + " in a tier", gold(invalid.policy), priority.ErrInvalidPolicy, []string{invalid.shown, `"gold"`}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := test.rule
			store, errRedis := priority.NewRedisStore(client, &priority.RedisOptions{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			inMemory, errMemory := memory.New(&memory.Options{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			for _, shown := range test.shown {
				wantInvalid(t, errRedis, test.kind, shown)
				wantInvalid(t, errMemory, test.kind, shown)
			}
			if store != nil || inMemory != nil {
				t.Error("a store beside the error")
			}
		})
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix})
		wantInvalid(t, err, priority.ErrInvalidOption, prefix)
	}
	for _, client := range []priority.RedisClient{
		nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil),
		redis.UniversalClient((*redis.Client)(nil)),
	} {
		store, err := priority.NewRedisStore(client, nil)
		wantInvalid(t, err, priority.ErrInvalidOption, "nil")
		if store != nil {
			t.Errorf("%T: a store beside the error", client)
		}
	}
}
