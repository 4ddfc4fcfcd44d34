package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// What is in Redis: the keys, their values and TTLs, which programs in other
// languages share.

const day = 24 * time.Hour

// onEachServer runs a test on miniredis and on a real server.
func onEachServer(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, onMiniredis(t))
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client())
	})
}

func TestKeys(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, test := range []struct{ prefix, customer, key string }{
			{"", "acme", "priority:{acme}"},
			{"", "{}", "priority:{{%7D}"},
			{"", "100%", "priority:{100%25}"},
			{"", "%7D}", "priority:{%257D%7D}"},
			{"", "a\x00b\n", "priority:{a\x00b\n}"},
			{"", "\xff:pending", "priority:{\xff:pending}"},
			{"fleet-1", "acme", "fleet-1:{acme}"},
			{"a:%", "%", "a:%:{%25}"},
		} {
			store := openStore(t, client, &priority.RedisOptions{Prefix: test.prefix, Timeout: -1})
			count, pending := test.key+":count", test.key+":pending"
			if got := store.Keys(test.customer); got != (priority.Keys{Count: count, Pending: pending, Override: test.key + ":override"}) {
				t.Errorf("prefix %q, %q: keys %q, want those of %q", test.prefix, test.customer, got, test.key)
			}
			before := time.Now().Truncate(time.Millisecond)
			must(store.NextN(t.Context(), test.customer, 5))(t)
			must(submit(t, store, test.customer, ":b", "a\x00"))(t)
			if got := client.Get(t.Context(), count).Val(); got != "-4" {
				t.Errorf("after 5 documents of %q the key holds %q", test.customer, got)
			}
			wantTTL(t, client, count, quiet)
			wantEnd(t, client, pending)
			held := client.ZRangeWithScores(t.Context(), pending, 0, -1).Val()
			if len(held) != 4 || held[0] != (redis.Z{Member: ":averages", Score: 1000}) || held[1].Member != ":fades" ||
				held[2].Member != "::b" || held[3].Member != "a\x00" {
				t.Fatalf("pending of %q: %v", test.customer, held)
			}
			wantFades(t, client, pending, 2*day) // two documents
			for _, document := range held[2:] {
				if at := time.UnixMilli(int64(document.Score) / 256); at.Before(before) || at.After(time.Now()) || document.Score < 0 {
					t.Errorf("%v was submitted at %v, want from %v on", document, at, before)
				}
			}
			if b, a := levelOf(held[2].Score), levelOf(held[3].Score); b != 1 || a != 1 {
				t.Errorf("the scores of %q have the levels %d and %d", test.customer, b, a)
			}
		}
		if n := client.DBSize(t.Context()).Val(); n != 16 {
			t.Errorf("%d keys, want 16", n)
		}

		// What is beyond the last load has a score below zero, with its turn.
		store := openStore(t, client, &priority.RedisOptions{Prefix: "turns", Timeout: -1, Policy: priority.Policy{Loads: []float64{1.5, 6.5}, Turns: 4}})
		must(submit(t, store, "acme", numbered("photo", 20)...))(t)
		var levels []priority.Level
		for _, document := range client.ZRangeWithScores(t.Context(), store.Keys("acme").Pending, 0, -1).Val() {
			if strings.HasPrefix(document.Member.(string), ":") {
				continue
			}
			if level := levelOf(document.Score); (document.Score < 0) != (level >= 3) {
				t.Errorf("%v has the level %d", document, level)
			} else {
				levels = append(levels, level)
			}
		}
		if want := []priority.Level{4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 3, 3, 3, 3, 3, 3, 3, 1, 2}; !slices.Equal(levels, want) {
			t.Errorf("the scores have the levels %v, want %v", levels, want)
		}
	})
}

// levelOf returns the level that the document of a score was given.
func levelOf(score float64) priority.Level { return priority.Level(int64(math.Abs(score)) % 256) }

// wantTTL fails the test unless a key has a TTL, less what the test has taken.
func wantTTL(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	got := client.PTTL(t.Context(), key).Val()
	if got > want || got < want-slack {
		t.Errorf("%q has the TTL %v, want %v", key, got, want)
	}
}

// wantFades fails the test unless the recent documents fade after a time, less what the
// test has taken.
func wantFades(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	fades := time.UnixMilli(int64(client.ZScore(t.Context(), key, ":fades").Val()))
	if got := time.Until(fades); got > want || got < want-slack {
		t.Errorf("what %q has of recent documents fades in %v, want %v", key, got, want)
	}
}

// wantEnd fails the test unless a set of pending documents ends with a day, after all that
// it holds, and within a day of that.
func wantEnd(t testing.TB, client redis.Cmdable, key string) {
	t.Helper()
	ttl := client.PTTL(t.Context(), key).Val()
	end := time.Now().Add(ttl)
	fades := time.UnixMilli(int64(client.ZScore(t.Context(), key, ":fades").Val()))
	if round := end.Round(time.Minute); !round.Equal(round.Truncate(day)) || end.Before(fades) || ttl < day-slack ||
		end.Sub(fades) > day+slack && ttl > 2*day {
		t.Errorf("%q ends in %v, at %v; the recent documents fade at %v", key, ttl, end, fades)
	}
}

// The set of pending documents has a TTL that Submit sets, and no other call changes.
func TestKeys_TTL(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		ctx, store := t.Context(), newStore(t, client)
		key := store.Keys("acme").Pending
		decides(t, flood(4)...)(submit(t, store, "acme", "a", "b", "c", "d"))
		wantFades(t, client, key, 3*day) // four documents
		wantEnd(t, client, key)
		client.PExpire(ctx, key, 100*day)
		must(store.Done(ctx, "acme", "d", time.Second))(t)
		pends(t, store, "acme", 3)
		decides(t, loaded(4*3, 3))(submit(t, store, "acme", "c")) // ends on the same day
		wantTTL(t, client, key, 100*day)
		client.Persist(ctx, key) // as in a copy
		must(submit(t, store, "acme", "c"))(t)
		wantEnd(t, client, key)
		must(submit(t, store, "acme", numbered("more", 12)...))(t) // on a later one
		pends(t, store, "acme", 15)
		wantFades(t, client, key, 5*day)
		wantEnd(t, client, key)

		// A document that is submitted again when the recent documents have faded is pending for
		// a day too.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(-time.Hour).UnixMilli())})
		client.PExpire(ctx, key, time.Hour)
		must(submit(t, store, "acme", "a"))(t)
		pends(t, store, "acme", 15)
		if ttl := client.PTTL(ctx, key).Val(); ttl < day-slack || ttl > 2*day {
			t.Errorf("the TTL is %v", ttl)
		}

		// What is set for years does not stay.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(3650 * day).UnixMilli())})
		must(submit(t, store, "acme", "f"))(t)
		pends(t, store, "acme", 16)
		wantFades(t, client, key, 10*day)
		wantEnd(t, client, key)
	})
}

// Documents of more than a day ago are cleared by the customer's Submits, some at a time.
func TestKeys_OldDocuments(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client)
		key := store.Keys("acme").Pending
		at := func(age time.Duration, id string) redis.Z {
			return redis.Z{Score: float64(256*time.Now().Add(-age).UnixMilli() + 3), Member: id}
		}
		must(submit(t, store, "acme", "new"))(t)
		var old []redis.Z
		for _, id := range numbered("old", 700) {
			ordinary, beyond := at(25*time.Hour, id), at(26*time.Hour, "beyond "+id)
			beyond.Score *= -1
			old = append(old, ordinary, beyond)
		}
		old = append(old, at(23*time.Hour, "young"))
		client.ZAdd(t.Context(), key, old...)
		pends(t, store, "acme", 2)
		for _, left := range []int64{400, 0, 0} {
			if again := must(submit(t, store, "acme", "new"))(t)[0]; again.Pending != 2 {
				t.Fatalf("again: %+v, want 2 pending", again)
			}
			if n := client.ZCard(t.Context(), key).Val(); n != left+4 {
				t.Fatalf("%d members, want %d old ones", n, left)
			}
		}
		pends(t, store, "acme", 2)

		late := []priority.Late{{ID: "young", Since: time.Now().Add(-20 * time.Hour)}}
		if ended := must(store.DoneLate(t.Context(), "acme", late, 0))(t)[0]; ended.Level != 3 || !near(ended.Latency, 3*time.Hour) {
			t.Errorf("done after three hours, which was 20 hours ago: %v", ended)
		}
	})
}

// corruptions are ways in which a key holds something else.
func corruptions() map[string]func(c redis.Pipeliner, key string) {
	ctx := context.Background()
	all := map[string]func(c redis.Pipeliner, key string){
		"list":       func(c redis.Pipeliner, key string) { c.RPush(ctx, key, "-1") },
		"hash":       func(c redis.Pipeliner, key string) { c.HSet(ctx, key, "count", "-1") },
		"set":        func(c redis.Pipeliner, key string) { c.SAdd(ctx, key, "-1") },
		"sorted set": func(c redis.Pipeliner, key string) { c.ZAdd(ctx, key, redis.Z{Score: -1, Member: "-1"}) },
	}
	for _, value := range []string{"abc", "1.5", "", "5 ", "1e3", "5\x00", "9223372036854775808", "1000000000000001", "-1000000000000000", strings.Repeat("1", 1000)} {
		all[fmt.Sprintf("%.25q", value)] = func(c redis.Pipeliner, key string) { c.Set(ctx, key, value, 0) }
	}
	return all
}

// A corrupt count fails every call that would count or tell it, and is left as it
// is, as are the pending documents. Other customers and the other rule do not notice.
func TestKeys_CorruptCount(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for name, corrupt := range corruptions() {
			t.Run(name, func(t *testing.T) { testCorruptCount(t, client, corrupt) })
		}
	})
}

func testCorruptCount(t *testing.T, client *redis.Client, corrupt func(c redis.Pipeliner, key string)) {
	ctx, store := t.Context(), newStore(t, client)
	decides(t, flood(2)...)(submit(t, store, "acme", "a", "b"))
	keys := store.Keys("acme")
	spoil(t, client, corrupt, keys.Count)
	before := contents(t, client, keys.Count, keys.Pending)
	calls := everyCall(t, store, "acme", "a")
	for _, name := range []string{"Next", "NextN", "NextEach", "Peek"} {
		wantError(t, calls[name](), priority.ErrCorrupt, keys.Count)
	}
	each, err := store.NextEach(ctx, []string{"globex", "acme", "initech", "acme", "globex"})
	for i, want := range []error{nil, priority.ErrCorrupt, nil, priority.ErrCorrupt, nil} {
		if err := itemerrors.Of(err, 5)[i]; !errors.Is(err, want) {
			t.Errorf("NextEach, entry %d: %v, want %v", i, err, want)
		}
	}
	decides(t, counted(0), priority.Decision{}, counted(0), priority.Decision{}, counted(-1))(each, nil)
	if after := contents(t, client, keys.Count, keys.Pending); after != before {
		t.Errorf("the keys hold %s, before %s", after, before)
	}

	// The other rule does not look at it.
	decides(t, flood(3)[2], flood(3)[2])(submit(t, store, "acme", "c", "c"))
	must(store.DoneN(ctx, "acme", []string{"a"}, time.Second))(t)
	check(t, store.Reset(ctx, "acme"))
	decides(t, counted(0))(one(store.Next(ctx, "acme")))
}

// The same of a key of pending documents: of another kind, or with averages that no
// version wrote, or a later one. Next does not look at it.
func TestKeys_CorruptPending(t *testing.T) {
	ctx := context.Background()
	averages := func(averages float64) func(c redis.Pipeliner, key string) {
		return func(c redis.Pipeliner, key string) {
			soon := float64(time.Now().Add(day).UnixMilli())
			c.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: soon}, redis.Z{Member: ":averages", Score: averages}, redis.Z{Member: "a", Score: 1})
		}
	}
	all := corruptions()
	all["an average cost of 0"], all["a quarter of a thousandth"], all["averages beyond all"] = averages(3_000_000), averages(1000.25), averages(1e13)
	all["a later version"] = func(c redis.Pipeliner, key string) {
		c.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: -2}, redis.Z{Member: ":averages", Score: -2})
	}
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for corruption, corrupt := range all {
			t.Run(corruption, func(t *testing.T) {
				store := newStore(t, client)
				keys := store.Keys("acme")
				spoil(t, client, corrupt, keys.Pending)
				before := contents(t, client, keys.Count, keys.Pending)
				calls := everyCall(t, store, "acme", "a")
				for _, name := range []string{"Submit", "SubmitN", "Done", "DoneN", "Peek"} {
					err := calls[name]()
					wantError(t, err, priority.ErrCorrupt, keys.Pending)
					if later := corruption == "a later version"; strings.Contains(fmt.Sprint(err), corruption) != later {
						t.Errorf("%s: %v", name, err)
					}
				}
				if after := contents(t, client, keys.Count, keys.Pending); after != before {
					t.Errorf("the keys hold %s, before %s", after, before)
				}
				decides(t, counted(0))(one(store.Next(ctx, "acme")))
				check(t, store.Reset(ctx, "acme"))
				decides(t, flood(1)...)(submit(t, store, "acme", "a"))
			})
		}
	})
}

// spoil makes a key hold something else for a long time.
func spoil(t *testing.T, client *redis.Client, corrupt func(c redis.Pipeliner, key string), key string) {
	t.Helper()
	must(client.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.Del(t.Context(), key)
		corrupt(tx, key)
		tx.PExpire(t.Context(), key, 100*time.Hour)
		return nil
	}))(t)
}

// contents shows all that some keys hold, and about how long.
func contents(t *testing.T, client *redis.Client, keys ...string) string {
	t.Helper()
	var all strings.Builder
	for _, key := range keys {
		ctx := t.Context()
		ttl := client.PTTL(ctx, key).Val().Round(20 * time.Minute)
		kind := client.Type(ctx, key).Val()
		var value any
		switch kind {
		case "none":
		case "string":
			value = client.Get(ctx, key).Val()
		case "list":
			value = client.LRange(ctx, key, 0, -1).Val()
		case "hash":
			value = client.HGetAll(ctx, key).Val()
		case "set":
			value = client.SMembers(ctx, key).Val()
		case "zset":
			value = client.ZRangeWithScores(ctx, key, 0, -1).Val()
		default:
			t.Fatalf("%q is of the kind %q", key, kind)
		}
		fmt.Fprintf(&all, "%q: %s %.80q for %v; ", key, kind, fmt.Sprint(value), ttl)
	}
	return all.String()
}

// Programs in other languages run the scripts as printed, and count along with the
// stores of the default policy. What the scripts answer, the vectors say.
func TestKeys_ScriptsAsPrinted(t *testing.T) {
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client)
		keys := []string{store.Keys("acme").Count, store.Keys("acme").Pending}
		printed := func(script string) string { return string(must(os.ReadFile("lua/" + script + ".lua"))(t)) }
		eval := func(text string, keys []string, args ...any) ([]int64, error) {
			return client.Eval(t.Context(), text, keys, args...).Int64Slice()
		}
		must(eval(printed("next"), keys[:1]))(t)
		decides(t, countdown(-1, 2)...)(store.NextN(t.Context(), "acme", 2))
		if state := must(store.Peek(t.Context(), "acme"))(t); state.Count != -2 || !near(state.ResetIn, quiet) {
			t.Errorf("Peek: %+v", state)
		}
		must(eval(printed("submit"), keys[1:], "a", 0, "b", 0))(t)
		decides(t, flood(2)[1])(submit(t, store, "acme", "b"))
		must(eval(printed("done"), keys[1:], 0, "", "a"))(t)
		pends(t, store, "acme", 1)

		// What is no number of documents, or no cost, changes nothing.
		before := contents(t, client, keys...)
		for _, test := range []struct {
			text, key, complaint string
			args                 []any
		}{
			{printed("next"), keys[0], "number of documents", []any{"0"}},
			{printed("next"), keys[0], "number of documents", []any{"1.5"}},
			{printed("next"), keys[0], "number of documents", []any{"1000001"}},
			{printed("submit"), keys[1], "number of documents", nil},
			{printed("submit"), keys[1], "number of documents", slices.Repeat([]any{"1"}, 202)},
			{printed("submit"), keys[1], "cost", []any{"c", "-1"}},
			{printed("submit"), keys[1], "cost", []any{"c", "1", "d", "1.5"}},
			{printed("done"), keys[1], "cost", []any{"x", "", "c"}},
			{printed("done"), keys[1], "times", []any{"0", "-5", "c"}},
			{printed("done"), keys[1], "times", []any{"0", "5", "c", "d"}},
			{printed("done"), keys[1], "cost", []any{"1000000", "", "c"}},
		} {
			if _, err := eval(test.text, []string{test.key}, test.args...); err == nil || !strings.HasPrefix(err.Error(), "ERR the "+test.complaint) {
				t.Errorf("%q: %v, want a complaint about the %s", test.args, err, test.complaint)
			}
		}
		if after := contents(t, client, keys...); after != before {
			t.Errorf("the keys hold %s, before %s", after, before)
		}
	})
}

// FuzzKey shows that no two customers share a key, that the keys' hash tag holds
// all of the customer and nothing else, and that it can be read back.
func FuzzKey(f *testing.F) {
	store := openStore(f, connect(f, &redis.Options{Addr: "127.0.0.1:1"}), &priority.RedisOptions{Prefix: "p%7D:"})
	for i, customer := range oddCustomers {
		f.Add(customer, oddCustomers[(i+1)%len(oddCustomers)])
		f.Add(customer, strings.ReplaceAll(strings.ReplaceAll(customer, "%", "%25"), "}", "%7D"))
	}
	long := strings.Repeat("x", 511)
	f.Add(long+"}", long+"%7D")
	f.Add("acme}:count", "acme")
	f.Fuzz(func(t *testing.T, a, b string) {
		keysA, keysB := store.Keys(a), store.Keys(b)
		for end, keys := range map[string][2]string{
			":count": {keysA.Count, keysB.Count}, ":pending": {keysA.Pending, keysB.Pending}, ":override": {keysA.Override, keysB.Override},
		} {
			keyA, keyB := keys[0], keys[1]
			if (keyA == keyB) != (a == b) {
				t.Errorf("%q and %q have the keys %q and %q", a, b, keyA, keyB)
			}
			if a == "" {
				continue // no customer: it has no tag to speak of
			}
			// As Redis finds the tag: from the first { to the first } after it.
			prefix, rest, _ := strings.Cut(keyA, "{")
			tag, suffix, found := strings.Cut(rest, "}")
			if !found || prefix != "p%7D::" || suffix != end {
				t.Errorf("%q has the key %q, whose tag is %q", a, keyA, tag)
			}
			if got := strings.NewReplacer("%25", "%", "%7D", "}").Replace(tag); got != a {
				t.Errorf("%q comes back as %q from its key %q", a, got, keyA)
			}
		}
	})
}
