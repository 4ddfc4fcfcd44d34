package priority_test

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// contract is what every store promises, on each kind of client. What it decides, the
// vectors and the laws show.
var contract = []struct {
	promise string
	keep    func(t *testing.T, open opener)
}{
	{"many documents are as many single ones, in order", manyAreAsManySingle},
	{"SubmitN is as many Submits", submitNIsAsManySubmits},
	{"Done ends what is pending, and reports it", doneEndsPending},
	{"no two customers or documents are mixed up", nothingIsMixedUp},
	{"a wrong call counts nothing", wrongCallsCountNothing},
}

// TestContract holds both stores to the same promises, on each kind of client and server.
func TestContract(t *testing.T) {
	t.Parallel()
	backends := map[string]func(t *testing.T) opener{"memory": func(*testing.T) opener { return openMemory }}
	for name, start := range fleets {
		backends[name] = func(t *testing.T) opener { return onServer(start(t).client) }
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

func manyAreAsManySingle(t *testing.T, open opener) {
	w := open(t, rule{})
	w.nextN(t, "acme", 4, countdown(0, 4)...)
	w.next(t, "acme", counted(-4))
	w.nextN(t, "acme", 40, countdown(-5, 40)...)
	w.nextEach(t, []string{"globex", "acme", "initech", "acme", "acme", "globex"},
		counted(0), counted(-45), counted(0), counted(-46), counted(-47), counted(-1))

	// So many that they are on every node of a cluster, most of them twice.
	names := customers(180)
	w.nextEach(t, append(names, names[:120]...),
		append(slices.Repeat([]priority.Decision{counted(0)}, 180), slices.Repeat([]priority.Decision{counted(-1)}, 120)...)...)
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

func doneEndsPending(t *testing.T, open opener) {
	w := open(t, rule{})
	// More than any script call takes.
	ids := documentIDs("invoice", 300)
	decisions := must(w.SubmitN(t.Context(), "acme", ids, nil))(t)
	w.submit(t, "globex", ids[0], flood(1)[0])
	if ended := must(w.Done(t.Context(), "acme", ids[1], time.Second))(t); ended.Level != decisions[1].Level || !w.near(ended.Latency, 0) {
		t.Errorf("Done returns %v of %v", ended, decisions[1])
	}
	w.done(t, "acme", ids[1], "unknown")
	w.pends(t, "acme", 299)
	for i, ended := range must(w.DoneN(t.Context(), "acme", append(ids, ids[0]), 0))(t) {
		if want := i != 1 && i < 300; (ended.Level > 0) != want || want && ended.Level != decisions[i].Level {
			t.Errorf("document %d: %v of %v", i, ended, decisions[min(i, 299)])
		}
	}
	w.pends(t, "acme", 0)
	w.pends(t, "globex", 1)
}

func nothingIsMixedUp(t *testing.T, open opener) {
	w := open(t, rule{})
	var want []priority.Decision
	for i, customer := range oddCustomers {
		w.nextN(t, customer, i+1, countdown(0, i+1)...)
		want = append(want, counted(-int64(i+1)))
	}
	w.nextEach(t, oddCustomers, want...)
	for _, customer := range oddCustomers {
		w.submitN(t, customer, []string{"same", customer}, flood(2)...)
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
	w.pends(t, "documents", 0)
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
		_, each := w.NextEach(ctx, names)
		_, many := w.SubmitN(ctx, "acme", names, nil)
		_, ended := w.DoneN(ctx, "acme", names, 0)
		for _, err := range []error{each, many, ended} {
			wantInvalid(t, err, "1234")
		}
	}
	tooMany := slices.Repeat([]string{"acme"}, priority.MaxDocuments+1)
	_, next := w.NextN(ctx, "acme", 1_000_001)
	_, each := w.NextEach(ctx, tooMany)
	_, done := w.Done(ctx, "acme", "a", -time.Second)
	wantInvalid(t, next, "1000001")
	wantInvalid(t, each, "1000001")
	wantInvalid(t, done, "-1s")
	for cost, shown := range map[float64]string{-1: "-1", math.Inf(1): "+Inf", math.NaN(): "NaN"} {
		_, err := w.SubmitN(ctx, "acme", []string{"b", "wrong"}, []float64{1, cost})
		wantInvalid(t, err, shown)
		wantInvalid(t, err, `"wrong"`)
	}
	_, err := w.SubmitN(ctx, "acme", []string{"b", "c"}, []float64{1})
	wantInvalid(t, err, "1 costs for 2")
	w.submit(t, "acme", "b", flood(2)[1]) // nothing came of all that
	w.peek(t, "globex", unknown)
}

// A TierOf may look into a file or a database: it is asked once a customer and call.
func TestTierOf(t *testing.T) {
	asked := map[string]int{}
	store := onServer(connectToMiniredis(t, miniredis.RunT(t)))(t, rule{
		tiers:  map[string]priority.Policy{"gold": {}},
		tierOf: func(customer string) string { asked[customer]++; return "gold" },
	})
	must(store.NextEach(t.Context(), slices.Repeat([]string{"a", "b"}, 1000)))(t)
	must(store.SubmitN(t.Context(), "c", documentIDs("invoice", 1000), nil))(t)
	if asked["a"] != 1 || asked["b"] != 1 || asked["c"] != 1 {
		t.Errorf("asked for %v", asked)
	}
}

// What customers and documents are called never reaches a log as it is.
func TestErrors_QuoteNames(t *testing.T) {
	t.Parallel()
	store := openStore(t, connect(t, "127.0.0.1:1"), nil)
	raw := regexp.MustCompile(`[\x00-\x1f\x7f-\xff]`)
	for _, name := range []string{"a\nERROR forged line", "\x1b[31mred", "\xff\xfe", strings.Repeat("x", 512)} {
		_, err1 := store.Next(t.Context(), name)
		_, err2 := store.Next(t.Context(), name+strings.Repeat("y", 512))
		_, err3 := store.Submit(t.Context(), "acme", name+strings.Repeat("y", 512), 0)
		for _, err := range []error{err1, err2, err3} {
			if message := fmt.Sprint(err); err == nil || raw.MatchString(strings.ReplaceAll(message, "…", "")) || len(message) > 400 {
				t.Errorf("the message has raw bytes, or many: %q", message)
			}
		}
	}
}

// PeekEach says of each customer what Peek says, on all nodes of a cluster, and one
// customer's corrupt key is no other's trouble.
func TestPeekEach(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client()
	w := storeOf(t, client)
	store := w.Store.(*priority.RedisStore)
	w.nextN(t, "acme", 30, countdown(0, 30)...)
	w.submitN(t, "clinic", []string{"a", "b", "c"}, flood(3)...)
	client.RPush(t.Context(), store.Keys("bad").Pending, "1")
	customers := []string{"acme", "clinic", "bad", "nobody", "acme"}
	states, err := store.PeekEach(t.Context(), customers)
	wantBatchError(t, err, 5, map[int]error{2: priority.ErrCorrupt})
	for i, customer := range customers {
		if customer != "bad" {
			w.peek(t, customer, states[i])
		}
	}
	if states[0].Rule != priority.ByCount || states[1].Pending != 3 || states[3].Rule != priority.Unknown {
		t.Errorf("got %+v", states)
	}
	_, err = store.PeekEach(t.Context(), []string{"acme", ""})
	wantInvalid(t, err, "0 bytes")
}
