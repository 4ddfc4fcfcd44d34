package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// contract is what every store promises. What time does to it, the vectors and the laws
// show.
var contract = []struct {
	promise string
	keep    func(t *testing.T, open opener)
}{
	{"each document is one down and has the level of its count", eachDocumentIsOneDown},
	{"many documents are as many single ones, in order", manyAreAsManySingle},
	{"Submit counts nothing, and Next submits nothing", neitherRuleTouchesTheOther},
	{"SubmitN is as many Submits", submitNIsAsManySubmits},
	{"floods take turns behind the last load", floodsTakeTurns},
	{"a document weighs what it costs, compared with the average", costsWeigh},
	{"Done teaches what a customer's documents cost", doneTeachesTheCost},
	{"Done ends what is pending and nothing else", doneEndsPending},
	{"Done reports what it ended", doneReturnsWhatItEnded},
	{"policies are told with every field", policiesAreTold},
	{"no two customers or documents are mixed up", nothingIsMixedUp},
	{"nothing to do", nothingToDo},
	{"a wrong call counts nothing", wrongCallsCountNothing},
	{"a call whose context has ended changes nothing", endedContextsChangeNothing},
}

// TestContract holds both stores to the same promises, on each kind of client and server.
func TestContract(t *testing.T) {
	t.Parallel()
	backends := map[string]func(t *testing.T) opener{"memory": func(*testing.T) opener { return openMemory }}
	for name, start := range fleets {
		backends[name] = func(t *testing.T) opener { return onServer(start(t).connect()) }
	}
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

func manyAreAsManySingle(t *testing.T, open opener) {
	for _, mode := range bothModes {
		w := open(t, rule{policy: priority.Policy{ResetMode: mode}})
		w.nextN(t, "acme", 1, counted(0))
		w.nextN(t, "acme", 3, countdown(-1, 3)...)
		w.next(t, "acme", counted(-4))
		w.nextN(t, "acme", 40, countdown(-5, 40)...)
		w.nextEach(t, []string{"globex", "acme", "initech", "acme", "acme", "globex"},
			counted(0), counted(-45), counted(0), counted(-46), counted(-47), counted(-1))

		// So many that they are on every node of a cluster, most of them twice.
		names := customers(180)
		w.nextEach(t, append(names, names[:120]...),
			append(slices.Repeat([]priority.Decision{counted(0)}, 180), slices.Repeat([]priority.Decision{counted(-1)}, 120)...)...)
	}
}

func neitherRuleTouchesTheOther(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextN(t, "acme", 3, countdown(0, 3)...)
	w.submitN(t, "acme", []string{"a", "b"}, flood(2)...)
	w.counts(t, "acme", counted(-2))
	w.next(t, "acme", counted(-3))
	w.submit(t, "acme", "c", flood(3)[2])
}

func submitNIsAsManySubmits(t *testing.T, open opener) {
	w := open(t, rule{})
	five := flood(5)
	w.submitN(t, "acme", []string{"a"}, five[0])
	w.submitN(t, "acme", []string{"b", "c", "b", "c", "d"}, five[1], five[2], five[2], five[2], five[3])
	w.submitN(t, "acme", []string{"a", "a"}, five[3], five[3])
	w.done(t, "acme", "b")
	// Five were submitted, and three are pending with the first of these.
	w.submitN(t, "acme", []string{"b", "e", "b"},
		byLoad(5*4, 4),
		byLoad(6*5, 5),
		byLoad(6*5, 5))

	// The first of what is pending already is decided about as if the others were not
	// there yet.
	w.submitN(t, "initech", []string{"a", "b", "c"}, flood(3)...)
	w.submitN(t, "initech", []string{"c", "new", "a", "b"},
		byLoad(1, 3), byLoad(2*2, 4),
		byLoad(3*3, 4), byLoad(4*4, 4))

	// More than any script call takes, some of them pending and some named twice.
	ids := documentIDs("invoice", 334)
	w.submitN(t, "globex", ids[:120], flood(120)...)
	want := slices.Repeat([]priority.Decision{pending(120)}, 120)
	want = append(want, pendingEach(121, 214)...)
	want = append(want, slices.Repeat([]priority.Decision{pending(334)}, 334)...)
	w.submitN(t, "globex", append(ids, ids...), want...)
	w.pends(t, "globex", 334)
	w.submitN(t, "umbrella", ids, flood(334)...) // the last of them beyond the last load
}

// turns has three levels by load, and four more for floods to take turns in.
func turns() rule { return rule{policy: priority.Policy{Loads: []float64{1.5, 6.5}, Turns: 4}} }

func floodsTakeTurns(t *testing.T, open opener) {
	w := open(t, turns())
	ids := documentIDs("photo", 20)
	at := func(level priority.Level, recent, ordinary, pending int64) priority.Decision {
		return priority.Decision{Level: level, Load: float64(recent * (ordinary + 1)), Pending: pending}
	}
	want := []priority.Decision{at(1, 1, 0, 1), at(2, 2, 1, 2)}
	for i, level := range []priority.Level{3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4} {
		want = append(want, at(level, int64(i+3), 2, int64(i+3)))
	}
	for i, id := range ids[:10] {
		w.submit(t, "acme", id, want[i])
	}
	w.submitN(t, "acme", ids[10:], want[10:]...)
	w.submitN(t, "globex", ids, want...) // at once
	w.submit(t, "globex", ids[19], want[19])
	w.submitN(t, "globex", []string{ids[19], ids[19], ids[18]}, at(4, 19, 2, 20), at(4, 19, 2, 20), at(4, 20, 2, 20))

	// Who is done with 16 of them takes an earlier turn.
	w.doneN(t, "acme", ids[2:18]...)
	w.submit(t, "acme", "next", priority.Decision{Level: 3, Load: 21 * 3, Pending: 5})
	if state := must(w.Peek(t.Context(), "acme"))(t); state.NextLevel != 3 || state.PendingLast != 3 {
		t.Errorf("Peek: %+v", state)
	}
}

func costsWeigh(t *testing.T, open opener) {
	w := open(t, rule{})
	ctx := t.Context()
	submit := func(customer, document string, cost float64, want priority.Decision) {
		t.Helper()
		got, err := w.Submit(ctx, customer, document, cost)
		w.decided(t, fmt.Sprintf("Submit of %s's %q at %v", customer, document, cost), got, err, want)
	}
	load := func(load float64) priority.Decision {
		return priority.Decision{Level: priority.Policy{}.LevelOfLoad(load), Load: load, Pending: 1}
	}
	// Until three customers' costs are known, every cost is the usual one.
	for _, customer := range customers(3) {
		submit(customer, "a", 4, load(1))
		submit("free "+customer, "a", 0, load(1))
	}
	for _, customer := range customers(20) {
		must(w.Submit(ctx, customer, "b", 4))(t)
	}
	w.done(t, "nobody", "nothing")
	for i, test := range []struct{ cost, load float64 }{
		{0, 1},
		{4, 1},
		{6, 1.5},
		{1e-300, 0.001},
		{math.SmallestNonzeroFloat64, 0.001},
		{0.001, 0.001},
	} {
		submit(fmt.Sprint("one of ", i), "a", test.cost, load(test.load))
		w.reset(t, fmt.Sprint("one of ", i))
	}
	for i, cost := range []float64{1e6, math.MaxFloat64} {
		submit(fmt.Sprint("wild ", i), "a", cost, load(100))
	}

	// In one call the usual cost stays, so that each document of it counts alike.
	w = open(t, rule{})
	for _, customer := range customers(20) {
		must(w.Submit(ctx, customer, "a", 2))(t)
	}
	got, err := w.SubmitN(ctx, "acme", []string{"a", "b", "c", "d", "a"}, []float64{2, 20, 0, 1, 2000})
	w.decidedAll(t, "SubmitN with costs", got, err, []priority.Decision{
		byLoad(1*1*1, 1), byLoad(2*2*10, 2),
		byLoad(3*3*1, 3), byLoad(4*4*.5, 4),
		byLoad(4*4*100, 4),
	})
}

func doneTeachesTheCost(t *testing.T, open opener) {
	w := open(t, rule{})
	ctx := t.Context()
	cost := func(customer string) float64 { return must(w.Peek(ctx, customer))(t).Cost }
	handle := func(customer, document string, took time.Duration) {
		t.Helper()
		if _, err := w.Submit(ctx, customer, document, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Done(ctx, customer, document, took); err != nil {
			t.Fatal(err)
		}
	}
	handle("unknown", "a", 0)
	for i, customer := range customers(20) {
		handle(customer, "a", 2*time.Second)
		if got := []float64{cost(customer), cost("unknown")}; !slices.Equal(got, []float64{1, 1}) {
			t.Errorf("after %d customers they cost %v", i+1, got)
		}
	}
	for range 9 { // not pending: nothing is learned
		if _, err := w.DoneN(ctx, "slow", []string{"x", "y"}, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	handle("slow", "b", 200*time.Second)
	if got := cost("slow"); got != .9+.1*8 {
		t.Errorf("one that took 100 times as long counts as 8: the cost is %v", got)
	}
	w.submit(t, "slow", "c", byLoad(2*1.7, 1))
	submitted, err := w.Submit(ctx, "slow", "d", 7) // no cost is known here yet: the average too
	w.decided(t, "Submit at a cost", submitted, err, byLoad(3*2*1.7, 2))
}

func doneEndsPending(t *testing.T, open opener) {
	w := open(t, rule{})
	w.done(t, "acme", "a") // of a customer nobody knows
	w.doneN(t, "acme", "a", "b")
	w.peek(t, "acme", unknown)
	w.submitN(t, "acme", []string{"a", "b", "c", "d"}, flood(4)...)
	w.submitN(t, "globex", []string{"a", "b"}, flood(2)...)
	w.done(t, "acme", "b")
	w.done(t, "acme", "b", "b", "unknown", "B", "a ") // twice, and of none
	w.done(t, "initech", "a")
	w.pends(t, "acme", 3)
	w.doneN(t, "acme", "d", "unknown", "b", "d")
	w.doneN(t, "acme", "b", "d")
	w.pends(t, "acme", 2)
	w.pends(t, "globex", 2)
	w.submit(t, "acme", "b", byLoad(5*3, 3)) // done before: a new one
	w.done(t, "acme", "a", "b", "c")
	w.pends(t, "acme", 0)
	w.submit(t, "acme", "a", byLoad(6, 1))

	// More than any script call takes.
	ids := documentIDs("invoice", 700)
	w.submitN(t, "umbrella", ids, flood(len(ids))...)
	w.doneN(t, "umbrella", ids[1:]...)
	w.pends(t, "umbrella", 1)
	w.doneN(t, "umbrella", ids...)
	w.pends(t, "umbrella", 0)
}

func doneReturnsWhatItEnded(t *testing.T, open opener) {
	w, ctx := open(t, turns()), t.Context()
	check := func(call string, got []priority.Ended, err error, levels ...priority.Level) {
		t.Helper()
		same := slices.EqualFunc(got, levels, func(e priority.Ended, level priority.Level) bool {
			return e.Level == level && w.near(e.Latency, 0) && (level > 0 || e.Latency == 0)
		})
		if err != nil || !same {
			t.Errorf("%s returns %v, %v, want the levels %v", call, got, err, levels)
		}
	}
	one := func(customer, document string, level priority.Level) {
		t.Helper()
		got, err := w.Done(ctx, customer, document, time.Second)
		check(fmt.Sprintf("Done(%q, %q)", customer, document), []priority.Ended{got}, err, level)
	}
	ids := documentIDs("photo", 300)
	w.submitN(t, "acme", ids[:4], pendingEach(1, 4)...)
	one("acme", "x", 0)
	one("globex", ids[0], 0)
	one("acme", ids[1], 2)
	one("acme", ids[1], 0)
	got, err := w.DoneN(ctx, "acme", []string{ids[3], ids[1], ids[0], ids[3], "x"}, 0)
	check("DoneN", got, err, 3, 0, 1, 0, 0)

	// More than any script call takes.
	decisions, err := w.SubmitN(ctx, "many", ids, nil)
	if err != nil {
		t.Fatal(err)
	}
	var levels []priority.Level
	for _, d := range decisions {
		levels = append(levels, d.Level)
	}
	got, err = w.DoneN(ctx, "many", ids, 0)
	check("DoneN of many", got, err, levels...)

	// The last of 255 levels.
	w = open(t, rule{policy: priority.Policy{Loads: ascending(254)}})
	w.submitN(t, "acme", ids[:16], pendingEach(1, 16)...)
	one("acme", ids[15], 255)
}

// tiers has two tiers, by the first word of a customer.
func tiers() rule {
	return rule{
		policy: priority.Policy{ResetInterval: time.Hour},
		tiers: map[string]priority.Policy{
			"gold": {Thresholds: []int64{-3, -4}, ResetInterval: 3 * time.Hour, ResetMode: priority.SinceLastReset,
				Loads: []float64{10, 100}, Turns: 2},
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
	w, all := open(t, tiers()), priority.DefaultPolicy()
	for customer, want := range map[string]priority.Policy{
		"acme":        {Thresholds: all.Thresholds, ResetInterval: time.Hour, Loads: all.Loads, Turns: all.Turns},
		"bronze acme": {Thresholds: all.Thresholds, ResetInterval: time.Hour, Loads: all.Loads, Turns: all.Turns},
		"gold acme": {Thresholds: []int64{-3, -4}, ResetInterval: 3 * time.Hour, ResetMode: priority.SinceLastReset,
			Loads: []float64{10, 100}, Turns: 2},
		"silver acme": {Thresholds: []int64{-1}, ResetInterval: quiet, Loads: []float64{32768}},
	} {
		got := w.PolicyOf(customer)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("PolicyOf(%q) = %+v, want %+v", customer, got, want)
		}
		// What the caller does with the tables is the caller's business.
		for i := range got.Thresholds {
			got.Thresholds[i] = 1000
		}
		for i := range got.Loads {
			got.Loads[i] = 0
		}
		if again := w.PolicyOf(customer); !reflect.DeepEqual(again, want) {
			t.Errorf("PolicyOf(%q) = %+v after a caller changed it, want %+v", customer, again, want)
		}
		if decision, err := w.Next(t.Context(), customer); err != nil || decision.Level != priority.First {
			t.Errorf("Next(%q) = %+v, %v after a caller changed the policy", customer, decision, err)
		}
		if decision, err := w.Submit(t.Context(), customer, "a", 0); err != nil || decision.Level != priority.First {
			t.Errorf("Submit of %q = %+v, %v after a caller changed the policy", customer, decision, err)
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
			decision.Level, decision.RuleLevel = 1, 1
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
		second := flood(2)[1]
		if i%2 == 1 { // all of theirs have the last level
			second = priority.Decision{Level: 1, Load: 2, Pending: 2}
		}
		w.submit(t, customer, "same", flood(1)[0])
		w.submit(t, customer, customer, second)
	}
	for i, customer := range oddCustomers { // each is forgotten alone
		if i%3 == 0 {
			w.reset(t, customer)
		} else {
			w.done(t, customer, customer)
		}
	}
	for i, customer := range oddCustomers {
		if i%3 == 0 {
			w.peek(t, customer, unknown)
		} else {
			w.counts(t, customer, counted(-int64(i+1)))
			w.pends(t, customer, 1)
		}
	}

	n := len(oddDocuments)
	w.submitN(t, "documents", oddDocuments, flood(n)...)
	for i, id := range oddDocuments {
		w.submit(t, "documents", id, pending(int64(n-i)))
		w.done(t, "documents", id)
	}
	for i, id := range oddDocuments {
		w.submit(t, "documents", id, pending(int64(i+1)))
	}
	w.doneN(t, "documents", oddDocuments...)
	w.pends(t, "documents", 0)
}

func nothingToDo(t *testing.T, open opener) {
	w := open(t, rule{})
	w.submit(t, "acme", "a", flood(1)[0])
	for _, nobody := range [][]string{nil, {}} {
		w.nextEach(t, nobody)
		w.submitN(t, "acme", nobody)
		w.submitN(t, "globex", nobody)
		w.doneN(t, "acme", nobody...)
	}
	w.nextN(t, "acme", 0)
	w.nextN(t, "globex", 0)
	w.peek(t, "globex", unknown)
	w.pends(t, "acme", 1)
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
	w.submit(t, "acme", "a", flood(1)[0])
	for _, bad := range invalidNames {
		calls := everyCall(t, w, bad.name, "a")
		calls["NextN of none"] = func() error { _, err := w.NextN(ctx, bad.name, 0); return err }
		calls["SubmitN of none"] = func() error { _, err := w.SubmitN(ctx, bad.name, nil, nil); return err }
		calls["DoneN of none"] = func() error { _, err := w.DoneN(ctx, bad.name, nil, 0); return err }
		for name, call := range calls {
			if wantInvalid(t, call(), bad.shown); t.Failed() {
				t.Fatalf("%s of a customer of %d bytes", name, len(bad.name))
			}
		}
		for name, call := range documentCalls(t, w, "acme", bad.name) {
			if wantInvalid(t, call(), bad.shown); t.Failed() {
				t.Fatalf("%s of a document of %d bytes", name, len(bad.name))
			}
		}

		// One bad entry among good ones: nothing is done, and the message tells
		// which it is.
		names := slices.Repeat([]string{"acme", "globex"}, 700)
		names[1234] = bad.name
		each, err := w.NextEach(ctx, names)
		wantInvalid(t, err, "1234")
		names[0] = "a"
		many, err := w.SubmitN(ctx, "acme", names, nil)
		wantInvalid(t, err, "1234")
		ended, err := w.DoneN(ctx, "acme", names, 0)
		wantInvalid(t, err, "1234")
		if len(each)+len(many)+len(ended) != 0 {
			t.Error("decisions beside the error of a wrong call")
		}
	}

	for n, shown := range map[int]string{-1: "-1", -1_000_000: "-1000000", 1_000_001: "1000001"} {
		_, err := w.NextN(ctx, "acme", n)
		wantInvalid(t, err, shown)
	}
	many := slices.Repeat([]string{"acme"}, priority.MaxDocuments+1)
	_, each := w.NextEach(ctx, many)
	_, submitN := w.SubmitN(ctx, "acme", many, nil)
	_, doneN := w.DoneN(ctx, "acme", many, 0)
	for _, err := range []error{each, submitN, doneN} {
		wantInvalid(t, err, "1000001")
	}
	_, done := w.Done(ctx, "acme", "a", -time.Second)
	_, doneN = w.DoneN(ctx, "acme", []string{"a"}, -time.Second)
	wantInvalid(t, done, "-1s")
	wantInvalid(t, doneN, "-1s")
	for cost, shown := range map[float64]string{-1: "-1", math.Inf(-1): "-Inf", math.Inf(1): "+Inf", math.NaN(): "NaN"} {
		_, err := w.Submit(ctx, "acme", "wrong", cost)
		wantInvalid(t, err, shown)
		wantInvalid(t, err, `"wrong"`)
		_, err = w.SubmitN(ctx, "acme", []string{"b", "wrong"}, []float64{1, cost})
		wantInvalid(t, err, `"wrong"`)
	}
	for _, costs := range [][]float64{{}, {1}, {1, 1, 1}} {
		_, err := w.SubmitN(ctx, "acme", []string{"b", "c"}, costs)
		wantInvalid(t, err, fmt.Sprint(len(costs), " costs for 2"))
	}
	w.submit(t, "acme", "b", flood(2)[1]) // nothing came of all that
	w.peek(t, "globex", unknown)
}

func endedContextsChangeNothing(t *testing.T, open opener) {
	w := open(t, rule{})
	w.submit(t, "acme", "a", flood(1)[0])
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, next := w.Next(ctx, "acme")
	nexts, nextN := w.NextN(ctx, "acme", 3)
	each, nextEach := w.NextEach(ctx, []string{"acme", "globex"})
	_, submit := w.Submit(ctx, "acme", "b", 0)
	submits, submitN := w.SubmitN(ctx, "acme", []string{"b", "c"}, nil)
	_, doneN := w.DoneN(ctx, "acme", []string{"a", "b"}, 0)
	_, peek := w.Peek(ctx, "acme")
	_, done := w.Done(ctx, "acme", "a", 0)
	reset := w.Reset(ctx, "acme")
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
	w.pends(t, "acme", 1)
}

// A TierOf may look into a file or a database: it is asked once a customer and call.
func TestTierOf(t *testing.T) {
	for name, open := range map[string]opener{"memory": openMemory, "miniredis": onServer(connectToMiniredis(t, miniredis.RunT(t)))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked, ctx := map[string]int{}, t.Context()
			store := open(t, rule{
				tiers:  map[string]priority.Policy{"gold": {}},
				tierOf: func(customer string) string { asked[customer]++; return "gold" },
			})
			documents := make([]string, 1000)
			for i := range documents {
				documents[i] = fmt.Sprint(i)
			}
			for operation, call := range map[string]func() error{
				"Next":     func() error { _, err := store.Next(ctx, "a"); return err },
				"NextN":    func() error { _, err := store.NextN(ctx, "a", 1000); return err },
				"NextEach": func() error { _, err := store.NextEach(ctx, slices.Repeat([]string{"a", "b"}, 1000)); return err },
				"SubmitN":  func() error { _, err := store.SubmitN(ctx, "a", documents, nil); return err },
				"Peek":     func() error { _, err := store.Peek(ctx, "a"); return err },
			} {
				clear(asked)
				if err := call(); err != nil || asked["a"] != 1 || asked["b"] > 1 {
					t.Errorf("%s: %v, asked for %v", operation, err, asked)
				}
			}
		})
	}
}

func manyTiers(n int) rule {
	r := rule{tiers: make(map[string]priority.Policy), tierOf: func(string) string { return "" }}
	for i := range n {
		r.tiers[strconv.Itoa(i)] = priority.Policy{}
	}
	return r
}

// TestConstructors gives NewRedisStore and memory.New what they must refuse.
func TestConstructors(t *testing.T) {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	gold := func(policy priority.Policy) rule {
		return rule{tiers: map[string]priority.Policy{"silver": {}, "gold": policy}, tierOf: func(string) string { return "gold" }}
	}
	type refused struct {
		name  string
		rule  rule
		shown []string
	}
	tests := []refused{
		{"tiers without TierOf", rule{tiers: map[string]priority.Policy{"gold": {}}}, []string{"TierOf"}},
		{"a tier of ten levels", gold(priority.Policy{Thresholds: descending(0, 9)}), []string{`"gold"`, "10", "9"}},
		{"a tier with turns", gold(priority.Policy{Turns: 4}), []string{`"gold"`, "10", "9"}},
		{"too many tiers", manyTiers(1001), []string{"1001"}},
		{"negative lease", rule{lease: -time.Second}, []string{"Lease -1s"}},
		{"lease below 1 s", rule{lease: 999 * time.Millisecond}, []string{"Lease 999ms"}},
		{"lease of no whole ms", rule{lease: time.Second + time.Microsecond}, []string{"Lease 1.000001s"}},
	}
	for _, invalid := range invalidPolicies {
		tests = append(tests,
			refused{invalid.name, rule{policy: invalid.policy}, []string{invalid.shown}},
			refused{invalid.name + " in a tier", gold(invalid.policy), []string{invalid.shown, `"gold"`}})
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := test.rule
			store, errRedis := priority.NewRedisStore(client, &priority.RedisOptions{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			inMemory, errMemory := memory.New(&memory.Options{Policy: r.policy, Tiers: r.tiers, TierOf: r.tierOf, Lease: r.lease})
			for _, shown := range test.shown {
				wantInvalid(t, errRedis, shown)
				wantInvalid(t, errMemory, shown)
			}
			if store != nil || inMemory != nil {
				t.Error("a store beside the error")
			}
		})
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: prefix})
		wantInvalid(t, err, prefix)
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": "127.0.0.1:1"}})
	defer ring.Close()
	_, err := priority.NewRedisStore(ring, &priority.RedisOptions{Overrides: true})
	wantInvalid(t, err, "Ring")
	for _, client := range []priority.RedisClient{
		nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil), (*redis.Ring)(nil),
		redis.UniversalClient((*redis.Client)(nil)),
	} {
		store, err := priority.NewRedisStore(client, nil)
		wantInvalid(t, err, "nil")
		if store != nil {
			t.Errorf("%T: a store beside the error", client)
		}
	}
}

// What customers and documents are called never reaches a log as it is.
func TestErrors_QuoteNames(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store := openStore(t, server.Client(), nil)
	server.Kill()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, name := range []string{"a\nERROR forged line", "\x1b[31mred", "a\x00b", "\xff\xfe", strings.Repeat("x", 512)} {
		_, err1 := store.Next(t.Context(), name)
		_, err2 := new(memory.Store).Next(canceled, name)
		_, err3 := store.Next(t.Context(), name+strings.Repeat("y", 512))
		_, err4 := store.Submit(t.Context(), "acme", name+strings.Repeat("y", 512), 0)
		for _, err := range []error{err1, err2, err3, err4} {
			if err == nil {
				t.Fatalf("%q: no error", name)
			}
			message := err.Error()
			if regexp.MustCompile(`[\x00-\x1f\x7f-\xff]`).MatchString(strings.ReplaceAll(message, "…", "")) {
				t.Errorf("the message has raw bytes: %q", message)
			}
			if len(message) > 400 {
				t.Errorf("the message has %d bytes: %q", len(message), message)
			}
		}
	}
}

// PeekEach says of each customer what Peek says, on all nodes of a cluster, and one
// customer's corrupt key is no other's trouble.
func TestPeekEach(t *testing.T) {
	t.Parallel()
	for name, client := range map[string]redis.UniversalClient{
		"single": redistest.Start(t).Client(), "cluster": redistest.StartCluster(t, 3).Client(),
	} {
		t.Run(name, func(t *testing.T) {
			store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.NextN(t.Context(), "acme", 30); err != nil {
				t.Fatal(err)
			}
			if _, err := store.SubmitN(t.Context(), "clinic", []string{"a", "b", "c"}, nil); err != nil {
				t.Fatal(err)
			}
			client.RPush(t.Context(), store.Keys("bad").Pending, "1")
			customers := []string{"acme", "clinic", "bad", "nobody", "acme"}
			states, err := store.PeekEach(t.Context(), customers)
			if !errors.Is(err, priority.ErrCorrupt) {
				t.Fatalf("got %v", err)
			}
			for i, err := range itemerrors.Of(err, len(customers)) {
				state, wantErr := store.Peek(t.Context(), customers[i])
				if errors.Is(err, priority.ErrCorrupt) != errors.Is(wantErr, priority.ErrCorrupt) {
					t.Errorf("%s: %v, want %v", customers[i], err, wantErr)
				}
				for _, s := range []*priority.State{&state, &states[i]} { // which time changes
					s.ResetIn, s.Oldest = s.ResetIn.Round(1e12), s.Oldest.Round(1e12)
				}
				if !reflect.DeepEqual(states[i], state) {
					t.Errorf("%s: %+v, want %+v", customers[i], states[i], state)
				}
			}
			if states[0].Rule != priority.ByCount || states[1].Rule != priority.ByLoad || states[1].Pending != 3 || states[3].Rule != priority.Unknown {
				t.Errorf("got %+v", states)
			}
		})
	}
	store, err := priority.NewRedisStore(redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), nil)
	if err != nil {
		t.Fatal(err)
	}
	if states, err := store.PeekEach(t.Context(), nil); states != nil || err != nil {
		t.Errorf("got %v, %v of nobody", states, err)
	}
	if _, err := store.PeekEach(t.Context(), []string{"acme", ""}); !errors.Is(err, priority.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

// What the process has learned of costs stays when the rules change.
func TestFollow_KeepsCosts(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	store := openStore(t, client, patient)
	w := &world{Store: store, slack: serverSlack}
	ctx := t.Context()
	for _, customer := range customers(20) {
		must(store.Submit(ctx, customer, "page", 4))(t)
		if _, err := store.Done(ctx, customer, "page", 2*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Follow(priority.Policy{Loads: []float64{3}}, nil); err != nil {
		t.Fatal(err)
	}
	got, err := w.Submit(ctx, "acme", "a", 10)
	w.decided(t, "Submit", got, err, priority.Decision{Level: 1, Load: 2.5, Pending: 1})
	if _, err := w.Done(ctx, "acme", "a", 8*time.Second); err != nil {
		t.Fatal(err)
	}
	if state := must(w.Peek(ctx, "acme"))(t); state.Cost != .9+.1*4 {
		t.Errorf("Peek: %+v, want a cost of 1.3", state)
	}
	if err := store.Follow(priority.Policy{}, nil); err != nil { // and back
		t.Fatal(err)
	}
	got, err = store.Submit(ctx, "acme", "b", 0)
	w.decided(t, "Submit", got, err, byLoad(2*1.3, 1))
}

// A policy that cannot be followed leaves the store as it is.
func TestFollow_Refused(t *testing.T) {
	store := openStore(t, redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{TierOf: func(string) string { return "gold" }})
	ten := priority.Policy{Thresholds: descending(0, 9)}
	for _, err := range []error{
		store.Follow(ten, nil),
		store.Follow(priority.Policy{Turns: -1}, nil),
		store.Follow(priority.Policy{}, map[string]priority.Policy{"gold": ten}),
	} {
		wantInvalid(t, err, "")
	}
	if got := store.PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
	if err := store.Follow(priority.Policy{}, map[string]priority.Policy{"gold": {Turns: 2}}); err != nil {
		t.Fatal(err)
	}
	if got := store.PolicyOf("acme"); got.Turns != 2 || store.Last() != 9 {
		t.Errorf("%+v, %d levels", got, store.Last())
	}
}

// Wrappers as users write them.
type (
	embeds      struct{ priority.Store }
	embedsOne   struct{ *memory.Store }
	unexported  struct{ inner }
	says        struct{ inner }
	inner       = priority.Store
	base        struct{ priority.Store }
	embedsBase  struct{ Base }
	Base        = base
	embedsNil   struct{ *observe.Store }
	itself      struct{ inner }
	embedsNames struct {
		priority.Policy // has Last, too, but is no Store
		priority.Store
	}
)

func (s itself) Unwrap() priority.Store { return s }

func (s says) Unwrap() priority.Store { return s.inner }

func (s embedsNames) Last() priority.Level { return s.Store.Last() }

func TestAs(t *testing.T) {
	t.Parallel()
	store := must(memory.New(nil))(t)
	for name, test := range map[string]struct {
		store priority.Store
		want  *memory.Store
	}{
		"itself":                  {store, store},
		"embeds a Store":          {embeds{store}, store},
		"embeds, by pointer":      {&embeds{store}, store},
		"embeds a *memory.Store":  {embedsOne{store}, store},
		"embeds something before": {embedsNames{Store: store}, store},
		"has Unwrap":              {says{store}, store},
		"one around the other":    {&embeds{says{embeds{store}}}, store},
		"nothing":                 {nil, nil},
		"embeds nothing":          {embeds{}, nil},
		"is a nil pointer":        {(*embeds)(nil), nil},
		"embeds what embeds":      {embedsBase{Base{store}}, store},
		"embeds an alias":         {unexported{store}, nil},
	} {
		if got, ok := priority.As[*memory.Store](test.store); got != test.want || ok != (test.want != nil) {
			t.Errorf("%s: %v, %t", name, got, ok)
		}
	}
	if _, ok := priority.As[*memory.Store](itself{store}); ok { // and it returns
		t.Error("a wrapper of itself has what it wraps")
	}
	observed := must(observe.New(store))(t)
	if got, ok := priority.As[*observe.Store](embedsNil{observed}); !ok || got != observed {
		t.Errorf("what is embedded was skipped: %v, %t", got, ok)
	}
	if _, ok := priority.As[*observe.Store](embedsNil{}); ok {
		t.Error("a nil pointer was returned")
	}
	if outer, ok := priority.As[*embeds](&embeds{&embeds{store}}); !ok || outer.Store == store {
		t.Error("the inner one was returned, not the outer one")
	}
}
