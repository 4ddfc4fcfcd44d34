package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/memory"
)

// contract is what every store promises, on each kind of client. What it decides, the
// vectors and the laws show.
var contract = []struct {
	promise string
	keep    func(t *testing.T, store priority.Store)
}{
	{"many documents are as many single ones, in order", manyAreAsManySingle},
	{"SubmitN is as many Submits", submitNIsAsManySubmits},
	{"Done ends what is pending, and reports it", doneEndsPending},
	{"DoneLate ends what was not submitted again", doneLateLeavesLaterSubmits},
	{"no two customers or documents are mixed up", nothingIsMixedUp},
	{"a wrong call counts nothing", wrongCallsCountNothing},
}

// TestContract holds both stores to the same promises, on each kind of client and server.
func TestContract(t *testing.T) {
	t.Parallel()
	t.Run("memory", func(t *testing.T) {
		testContract(t, func() priority.Store { return new(memory.Store) })
	})
	for name, start := range clients {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := start(t)
			testContract(t, func() priority.Store { return newStore(t, client) })
		})
	}
}

func testContract(t *testing.T, open func() priority.Store) {
	for _, test := range contract {
		t.Run(test.promise, func(t *testing.T) {
			t.Parallel()
			test.keep(t, open())
		})
	}
}

func manyAreAsManySingle(t *testing.T, store priority.Store) {
	ctx := t.Context()
	decides(t, countdown(0, 4)...)(store.NextN(ctx, "acme", 4))
	decides(t, counted(-4))(one(store.Next(ctx, "acme")))
	decides(t, countdown(-5, 40)...)(store.NextN(ctx, "acme", 40))
	decides(t, counted(0), counted(-45), counted(0), counted(-46), counted(-47), counted(-1))(
		store.NextEach(ctx, []string{"globex", "acme", "initech", "acme", "acme", "globex"}))

	// So many that they are on every node of a cluster, most of them twice.
	names := numbered("customer", 180)
	want := slices.Repeat([]priority.Decision{counted(0)}, 180)
	want = append(want, slices.Repeat([]priority.Decision{counted(-1)}, 120)...)
	decides(t, want...)(store.NextEach(ctx, append(names, names[:120]...)))
}

func submitNIsAsManySubmits(t *testing.T, store priority.Store) {
	ctx, five := t.Context(), flood(5)
	again := func(as, now priority.Decision) priority.Decision { // a level stays, whatever came since
		now.Level, now.RuleLevel = as.Level, as.RuleLevel
		return now
	}
	decides(t, five[0])(store.SubmitN(ctx, "acme", named.Documents("a")))
	decides(t, five[1], five[2], again(five[1], five[2]), five[2], five[3])(submit(t, store, "acme", "b", "c", "b", "c", "d"))
	decides(t, again(five[0], five[3]), again(five[0], five[3]))(submit(t, store, "acme", "a", "a"))
	must(store.Done(ctx, "acme", "b", time.Second))(t)
	// Five were submitted, and three are pending with the first of these.
	decides(t, loaded(5*4, 4), loaded(6*5, 5), loaded(6*5, 5))(submit(t, store, "acme", "b", "e", "b"))

	// More than any script call takes, some of them pending and some named twice.
	ids := numbered("invoice", 334)
	decides(t, flood(120)...)(submit(t, store, "globex", ids[:120]...))
	twice := must(submit(t, store, "globex", append(ids, ids...)...))(t)
	for i := range twice {
		want := flood(334)[i%334].Level
		if pending := int64(min(max(i+1, 120), 334)); twice[i].Pending != pending || twice[i].Level != want {
			t.Fatalf("document %d: %+v, want level %d and %d pending", i, twice[i], want, pending)
		}
	}
	pends(t, store, "globex", 334)
	decides(t, flood(334)...)(submit(t, store, "umbrella", ids...)) // the last of them beyond the last load
}

func doneEndsPending(t *testing.T, store priority.Store) {
	ctx := t.Context()
	// More than any script call takes.
	ids := numbered("invoice", 300)
	decisions := must(submit(t, store, "acme", ids...))(t)
	decides(t, flood(1)...)(submit(t, store, "globex", ids[0]))
	if ended := must(store.Done(ctx, "acme", ids[1], time.Second))(t); ended.Level != decisions[1].Level || !near(ended.Latency, 0) {
		t.Errorf("Done returns %v of %v", ended, decisions[1])
	}
	for _, unknown := range []string{ids[1], "unknown"} {
		must(store.Done(ctx, "acme", unknown, time.Second))(t)
	}
	pends(t, store, "acme", 299)
	for i, ended := range must(store.DoneN(ctx, "acme", append(ids, ids[0]), 0))(t) {
		if want := i != 1 && i < 300; (ended.Level > 0) != want || want && ended.Level != decisions[i].Level {
			t.Errorf("document %d: %v of %v", i, ended, decisions[min(i, 299)])
		}
	}
	pends(t, store, "acme", 0)
	pends(t, store, "globex", 1)
}

// pends fails the test unless Peek tells how many documents are pending.
func pends(t testing.TB, store priority.Store, customer string, want int64) {
	t.Helper()
	if got := must(store.Peek(t.Context(), customer))(t); got.Rule != priority.ByLoad || got.Pending != want {
		t.Fatalf("Peek of %.60q: %+v, want %d pending", customer, got, want)
	}
}

// unknown is the state of a customer of whom nothing is known.
var unknown = priority.State{NextLevel: priority.First, RuleLevel: priority.First}

func doneLateLeavesLaterSubmits(t *testing.T, store priority.Store) {
	ids := numbered("invoice", 1500)
	for since, left := range map[time.Duration]int64{0: 0, time.Hour: 1500} {
		must(submit(t, store, "acme", ids...))(t)
		late := make([]priority.Late, len(ids))
		for i, id := range ids {
			late[i] = priority.Late{ID: id, Since: time.Now().Add(-since)}
		}
		must(store.(interface {
			DoneLate(context.Context, string, []priority.Late, time.Duration) ([]priority.Ended, error)
		}).DoneLate(t.Context(), "acme", late, 0))(t)
		pends(t, store, "acme", left)
	}
}

func nothingIsMixedUp(t *testing.T, store priority.Store) {
	ctx := t.Context()
	for i, customer := range oddCustomers {
		decides(t, countdown(0, i+1)...)(store.NextN(ctx, customer, i+1))
		decides(t, flood(2)...)(submit(t, store, customer, "same", customer))
	}
	for i, customer := range oddCustomers { // each is forgotten alone
		if i%3 == 0 {
			check(t, store.Reset(ctx, customer))
		} else {
			must(store.Done(ctx, customer, customer, time.Second))(t)
		}
	}
	for i, customer := range oddCustomers {
		got, want := must(store.Peek(ctx, customer))(t), [2]int64{-int64(i), 1}
		if i%3 == 0 {
			want = [2]int64{}
		}
		if got.Count != want[0] || got.Pending != want[1] {
			t.Fatalf("Peek of %.60q: %+v, want the count and pending %v", customer, got, want)
		}
	}

	n := len(oddDocuments)
	decides(t, flood(n)...)(submit(t, store, "documents", oddDocuments...))
	for i, id := range oddDocuments {
		if again := must(submit(t, store, "documents", id))(t)[0]; again.Pending != int64(n-i) {
			t.Fatalf("%.60q again: %+v, want %d pending", id, again, n-i)
		}
		must(store.Done(ctx, "documents", id, time.Second))(t)
	}
	pends(t, store, "documents", 0)
}

// oddCustomers are customers that would share a key, or a hash tag, or be cut
// short, where a key is made without care.
var oddCustomers = []string{
	"acme", "Acme", "acme ", "{", "}", "{}", "}{", "{acme}", "acme}", "a}b",
	"%", "%25", "%7D", "%7d", "%257D", "a%7Db", "%s", "acme}:count", "acme:count", ":",
	"\x00", "a\x00b", "\r\n", "*1\r\n$4\r\nPING\r\n", " ", "\xff", "\xc3\x28", "ü", "u\u0308", "客户", "\"", "\\", "0", "-1", "]]", "nil",
	strings.Repeat("x", 511), strings.Repeat("x", 512), strings.Repeat("}", 512), strings.Repeat("\x00", 512),
}

// oddDocuments are ids that a script or a sorted set could take for something
// else.
var oddDocuments = append(slices.Clone(oddCustomers), "-inf", "(1", "[a", "1e400", "NX", "GT", "INCR", "1700000000000", "-0", "1.0", "count")

// invalidNames are what no call takes for a customer or a document, and what the
// error's message must show.
var invalidNames = []struct{ name, shown string }{
	{"", "0 bytes"},
	{strings.Repeat("x", 513), "513"},
	{strings.Repeat("ü", 257), "514"},
	{strings.Repeat("\x00", 100_000), "100000"},
}

func wrongCallsCountNothing(t *testing.T, store priority.Store) {
	ctx := t.Context()
	wantInvalid := func(err error, shown string) { t.Helper(); wantError(t, err, priority.ErrInvalid, shown) }
	for _, bad := range invalidNames {
		calls := named.Calls(ctx, store, bad.name, "a")
		for _, name := range []string{"Submit", "SubmitN", "Done", "DoneN"} {
			calls[name+" of such a document"] = named.Calls(ctx, store, "acme", bad.name)[name]
		}
		for _, call := range calls {
			wantInvalid(call(), bad.shown)
		}

		// One bad entry among good ones: nothing is done, and the message tells which it is.
		names := slices.Repeat([]string{"acme", "globex"}, 700)
		names[1234] = bad.name
		_, each := store.NextEach(ctx, names)
		_, many := store.SubmitN(ctx, "acme", named.Documents(names...))
		_, ended := store.DoneN(ctx, "acme", names, 0)
		for _, err := range []error{each, many, ended} {
			wantInvalid(err, "1234")
		}
	}
	_, next := store.NextN(ctx, "acme", 1_000_001)
	_, each := store.NextEach(ctx, slices.Repeat([]string{"acme"}, priority.MaxDocuments+1))
	_, done := store.Done(ctx, "acme", "a", -time.Second)
	wantInvalid(next, "1000001")
	wantInvalid(each, "1000001")
	wantInvalid(done, "-1s")
	for cost, shown := range map[float64]string{-1: "-1", math.Inf(1): "+Inf", math.NaN(): "NaN"} {
		_, err := store.SubmitN(ctx, "acme", []priority.Document{{ID: "b", Cost: 1}, {ID: "wrong", Cost: cost}})
		wantInvalid(err, shown)
		wantInvalid(err, `"wrong"`)
	}
	for _, customer := range []string{"acme", "globex"} { // nothing came of all that
		if got := must(store.Peek(ctx, customer))(t); got != unknown {
			t.Errorf("Peek: %+v", got)
		}
	}
}

// What customers and documents are called never reaches a log as it is.
func TestErrors_QuoteNames(t *testing.T) {
	t.Parallel()
	store := openStore(t, connect(t, &redis.Options{Addr: "127.0.0.1:1"}), nil)
	raw := regexp.MustCompile(`[\x00-\x1f\x7f-\xff]`)
	for _, name := range []string{"a\nERROR forged line", "\x1b[31mred", "\xff\xfe", strings.Repeat("x", 512)} {
		_, err1 := store.Next(t.Context(), name)
		_, err2 := store.Next(t.Context(), name+strings.Repeat("y", 512))
		_, err3 := submit(t, store, "acme", name+strings.Repeat("y", 512))
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
	ctx, client := t.Context(), redistest.StartCluster(t, 3).Client()
	store := newStore(t, client)
	must(store.NextN(ctx, "acme", 30))(t)
	must(submit(t, store, "clinic", "a", "b", "c"))(t)
	client.RPush(ctx, store.Keys("bad").Pending, "1")
	customers := []string{"acme", "clinic", "bad", "nobody", "acme"}
	states, err := store.PeekEach(ctx, customers)
	for i, err := range itemerrors.Of(err, len(customers)) {
		if isBad := customers[i] == "bad"; isBad != errors.Is(err, priority.ErrCorrupt) {
			t.Errorf("%s: %v", customers[i], err)
		}
	}
	acme, clinic := states[0], states[1]
	if acme.Count != -29 || acme.Rule != priority.ByCount || states[4].Count != -29 || clinic.Pending != 3 || clinic.NextLevel != 2 || states[3] != unknown {
		t.Errorf("got %+v", states)
	}
	_, err = store.PeekEach(ctx, []string{"acme", ""})
	wantError(t, err, priority.ErrInvalid, "0 bytes")
}
