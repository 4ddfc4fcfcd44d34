package priority_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
)

// What is in Redis: the keys, their values and TTLs, which programs in other
// languages share.

func TestKeys(t *testing.T) {
	t.Parallel()
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
			_, err1 := store.NextN(t.Context(), test.customer, 5)
			_, err2 := store.SubmitN(t.Context(), test.customer, []string{":b", "a\x00"}, nil)
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
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
			held = held[2:]
			for _, document := range held {
				if at := timeOf(document.Score); at.Before(before) || at.After(time.Now()) || document.Score < 0 {
					t.Errorf("%v was submitted at %v, want from %v on", document, at, before)
				}
			}
			if b, a := levelOf(held[0].Score), levelOf(held[1].Score); b != 1 || a != 1 {
				t.Errorf("the scores of %q have the levels %d and %d", test.customer, b, a)
			}
		}
		if n := client.DBSize(t.Context()).Val(); n != 16 {
			t.Errorf("%d keys, want 16", n)
		}

		// What is beyond the last load has a score below zero, with its turn.
		w := &world{Store: newStore(t, client, turns())}
		must(w.SubmitN(t.Context(), "acme", documentIDs("photo", 20), nil))(t)
		var levels []priority.Level
		for _, document := range client.ZRangeWithScores(t.Context(), w.Store.(*priority.RedisStore).Keys("acme").Pending, 0, -1).Val() {
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

// wantFades fails the test unless the recent documents fade after a time, less what the
// test has taken.
func wantFades(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	fades := time.UnixMilli(int64(client.ZScore(t.Context(), key, ":fades").Val()))
	if got := time.Until(fades); got > want || got < want-serverSlack {
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
	if round := end.Round(time.Minute); !round.Equal(round.Truncate(day)) || end.Before(fades) || ttl < day-serverSlack ||
		end.Sub(fades) > day+serverSlack && ttl > 2*day {
		t.Errorf("%q ends in %v, at %v; the recent documents fade at %v", key, ttl, end, fades)
	}
}

// The set of pending documents has a TTL that Submit sets, and no other call changes.
func TestKeys_TTL(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		ctx, key := t.Context(), "priority:{acme}:pending"
		w.submitN(t, "acme", []string{"a", "b", "c", "d"}, flood(4)...)
		wantFades(t, client, key, 3*day) // four documents
		wantEnd(t, client, key)
		client.PExpire(ctx, key, 100*day)
		w.done(t, "acme", "d")
		w.pends(t, "acme", 3)
		w.submit(t, "acme", "c", byLoad(4*3, 3)) // ends on the same day
		wantTTL(t, client, key, 100*day)
		wantFades(t, client, key, 3*day)
		w.submitN(t, "acme", documentIDs("more", 12), pendingEach(4, 12)...) // on a later one
		wantFades(t, client, key, 5*day)
		wantEnd(t, client, key)

		// A document that is submitted again when the recent documents have faded is pending for
		// a day too.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(-time.Hour).UnixMilli())})
		client.PExpire(ctx, key, time.Hour)
		w.submit(t, "acme", "a", pending(15))
		if ttl := client.PTTL(ctx, key).Val(); ttl < day-serverSlack || ttl > 2*day {
			t.Errorf("the TTL is %v", ttl)
		}

		// What is set for years does not stay.
		client.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: float64(time.Now().Add(3650 * day).UnixMilli())})
		w.submit(t, "acme", "f", pending(16))
		wantFades(t, client, key, 10*day)
		wantEnd(t, client, key)
	})
}

// Documents of more than a day ago are cleared by the customer's Submits, some at a time.
func TestKeys_OldDocuments(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		key := "priority:{acme}:pending"
		at := func(age time.Duration, id string) redis.Z {
			return redis.Z{Score: float64(256*time.Now().Add(-age).UnixMilli() + 3), Member: id}
		}
		w.submit(t, "acme", "new", flood(1)[0])
		var old []redis.Z
		for _, id := range documentIDs("old", 700) {
			ordinary, beyond := at(25*time.Hour, id), at(26*time.Hour, "beyond "+id)
			beyond.Score *= -1
			old = append(old, ordinary, beyond)
		}
		old = append(old, at(23*time.Hour, "young"))
		client.ZAdd(t.Context(), key, old...)
		w.pends(t, "acme", 2)
		for _, left := range []int64{400, 0, 0} {
			w.submit(t, "acme", "new", pending(2))
			if n := client.ZCard(t.Context(), key).Val(); n != left+4 {
				t.Fatalf("%d members, want %d old ones", n, left)
			}
		}
		w.pends(t, "acme", 2)
	})
}

// What a customer's documents took is remembered up to the millisecond in which the recent
// ones have faded, and a clock that stepped back keeps documents pending for a lease and the
// step.
func TestKeys_Clock(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	now := time.Now()
	wait := func(d time.Duration) {
		now = now.Add(d)
		server.SetTime(now)
	}
	w := &world{Store: newStore(t, connectToMiniredis(t, server), rule{lease: time.Hour})}
	wait(0)
	w.submit(t, "acme", "a", pending(1))
	wait(10 * time.Second)
	w.done(t, "acme", "a")
	wait(day - 10*time.Second)
	if state := must(w.Peek(t.Context(), "acme"))(t); state.Rule != priority.ByLoad || state.Recent != 0 || state.Latency != 10*time.Second {
		t.Errorf("%+v", state)
	}
	wait(ms)
	w.peek(t, "acme", unknown)
	w.submit(t, "acme", "b", pending(1)) // though the key is still there
	if state := must(w.Peek(t.Context(), "acme"))(t); state.Recent != 1 || state.Latency != 0 {
		t.Errorf("%+v", state)
	}

	w.submit(t, "globex", "a", pending(1))
	wait(-30 * time.Minute)
	w.pends(t, "globex", 1)
	wait(90 * time.Minute)
	w.pends(t, "globex", 1)
	wait(ms)
	w.pends(t, "globex", 0)
}

// TestKeys_EndOfInterval puts a key in front of the script that
// expires in the very millisecond in which the script runs, or one before. Redis
// does not let a key expire while a script runs, so nothing here depends on how
// fast it is.
func TestKeys_EndOfInterval(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	if version := majorVersion(t, client); version < 7 {
		redistest.SkipServer(t, fmt.Sprintf("Redis %d cannot do what this test needs", version))
	}
	const due = `
		local t = redis.call('TIME')
		local now = t[1] * 1000 + math.floor(t[2] / 1000)
		redis.call('SET', KEYS[1], '-5', 'PXAT', now - %d)
		if %[1]d == 0 and redis.call('EXISTS', KEYS[1]) == 0 then return {} end
	`
	due0, due1 := fmt.Sprintf(due, 0), fmt.Sprintf(due, 1)
	run := func(text string) []int64 {
		t.Helper()
		return must(client.Eval(t.Context(), text, []string{"priority:{acme}:count"}).Int64Slice())(t)
	}
	for range 20 {
		reply := run(due0 + lua.Next)
		if len(reply) == 0 {
			redistest.SkipServer(t, "this server removes a key that is set to expire now before its time is over")
		}
		if reply[1] != -6 {
			t.Fatalf("exactly at the end of the interval the count is %d, want -6", reply[1])
		}
	}
	// A millisecond can begin between the start of the script and its TIME, and
	// then the key is not overdue after all: hence the second tries.
	redistest.Await(t, "an overdue count is reset", func() bool {
		count := run(due1 + lua.Next)[1]
		if count != 0 && count != -6 {
			t.Fatalf("one millisecond after the interval the count is %d, want 0", count)
		}
		return count == 0
	})

	// The other half of it: the key's time is over exactly the interval after the
	// decision, for a new count and for one that goes on.
	const asFunction = "local function next()\n%s\nend\nnext()\n" + `
		local t = redis.call('TIME')
		return {redis.call('PEXPIRETIME', KEYS[1]) - t[1] * 1000 - math.floor(t[2] / 1000)}
	`
	for _, held := range []string{"a new", "a running"} {
		redistest.Await(t, held+" count expires after exactly the interval", func() bool {
			// Again, a millisecond may begin before TIME is called.
			return run(fmt.Sprintf(asFunction, lua.Next))[0] == quiet.Milliseconds()
		})
	}
}

// majorVersion returns the major version of Redis that a server is, or says to be.
func majorVersion(t *testing.T, client *redis.Client) (version int) {
	t.Helper()
	_, after, _ := strings.Cut(client.Info(t.Context(), "server").Val(), "redis_version:")
	if _, err := fmt.Sscanf(after, "%d.", &version); err != nil {
		t.Fatalf("INFO server: %v", err)
	}
	return version
}

// corruption is a way in which a key holds something other than a count.
type corruption struct {
	name       string
	spoil      func(c redis.Pipeliner, key string)
	onlyServer bool // miniredis takes what Redis does not for an integer
}

func corruptions() []corruption {
	ctx := context.Background()
	all := []corruption{
		{"list", func(c redis.Pipeliner, key string) { c.RPush(ctx, key, "-1") }, false},
		{"hash", func(c redis.Pipeliner, key string) { c.HSet(ctx, key, "count", "-1") }, false},
		{"set", func(c redis.Pipeliner, key string) { c.SAdd(ctx, key, "-1") }, false},
		{"sorted set", func(c redis.Pipeliner, key string) { c.ZAdd(ctx, key, redis.Z{Score: -1, Member: "-1"}) }, false},
		{"stream", func(c redis.Pipeliner, key string) {
			c.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: "1-1", Values: []string{"count", "-1"}})
		}, false},
	}
	value := func(onlyServer bool, values ...string) {
		for _, value := range values {
			all = append(all, corruption{fmt.Sprintf("%.25q", value), func(c redis.Pipeliner, key string) {
				c.Set(ctx, key, value, 0)
			}, onlyServer})
		}
	}
	value(false, "abc", "v2 1000", "1.5", "-1.0", "", " 5", "5 ", "0x10", "1e3", "nan", "-", "--1", "5\n", "5\x00", "\x00", "\xff",
		"123456789012345678901234567890", "-123456789012345678901234567890",
		"9223372036854775808", "-9223372036854775808", "9223372036854775807", "-9223372036854775807",
		"1000000000000000", "1000000000000001", "1000000000000009", "-1000000000000000", strings.Repeat("1", 1000))
	value(true, "+5", "007", "-007", "-0", "00", strings.Repeat("0", 1000))
	return all
}

// A corrupt count fails every call that would count or tell it, and is left as it
// is, as are the pending documents. Other customers and the other rule do not notice.
func TestKeys_CorruptCount(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, mode := range bothModes {
			for _, c := range corruptions() {
				for _, ttl := range []time.Duration{0, 100 * time.Hour} {
					if c.onlyServer && isMiniredis(client) {
						continue
					}
					t.Run(fmt.Sprintf("%v/%s/%v", mode, c.name, ttl), func(t *testing.T) {
						testCorruptCount(t, client, mode, c, ttl)
					})
				}
			}
		}
	})
}

func testCorruptCount(t *testing.T, client *redis.Client, mode priority.ResetMode, c corruption, ttl time.Duration) {
	ctx := t.Context()
	store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
	w := &world{Store: store, slack: serverSlack}
	w.submitN(t, "acme", []string{"a", "b"}, flood(2)...)
	key := store.Keys("acme").Count
	spoil(t, client, c, key, ttl)
	before := contents(t, client, key, store.Keys("acme").Pending)
	calls := countingCalls(t, store, "acme")
	calls["Peek"] = func() error { _, err := store.Peek(ctx, "acme"); return err }
	untouched := func(call string) {
		t.Helper()
		if after := contents(t, client, key, store.Keys("acme").Pending); after != before {
			t.Fatalf("%s: the keys hold %s, before %s", call, after, before)
		}
	}
	for name, call := range calls {
		wantCorrupt(t, call(), key)
		untouched(name)
	}

	each, err := store.NextEach(ctx, []string{"globex", "acme", "initech", "acme", "globex"})
	wantBatchError(t, err, 5, map[int]error{1: priority.ErrCorrupt, 3: priority.ErrCorrupt})
	if want := []priority.Decision{counted(0), {}, counted(0), {}, counted(-1)}; !slices.Equal(each, want) {
		t.Errorf("NextEach = %+v, want %+v", each, want)
	}
	untouched("a call about others too")

	// The other rule does not look at it.
	w.submitN(t, "acme", []string{"c", "c"}, flood(3)[2], flood(3)[2])
	w.doneN(t, "acme", "a")
	w.done(t, "acme", "b", "c")
	w.reset(t, "acme")
	w.next(t, "acme", counted(0))
}

// The same of a key of pending documents: of another kind, or with averages that no
// version wrote, or a later one. Next does not look at it.
func TestKeys_CorruptPending(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	ours := func(fades, averages float64) func(c redis.Pipeliner, key string) {
		return func(c redis.Pipeliner, key string) {
			c.ZAdd(ctx, key, redis.Z{Member: ":fades", Score: fades}, redis.Z{Member: ":averages", Score: averages}, redis.Z{Member: "a", Score: 1})
		}
	}
	soon := float64(time.Now().Add(day).UnixMilli())
	all := []corruption{
		{"an average cost of 0", ours(soon, 3_000_000), false},
		{"averages of 0", ours(soon, 0), false},
		{"half a thousandth", ours(soon, 1000.5), false},
		{"averages beyond all", ours(soon, 1e13), false},
		{"a later version", ours(-2, -2), false},
		{"averages alone", func(c redis.Pipeliner, key string) { c.ZAdd(ctx, key, redis.Z{Member: ":averages", Score: 0}) }, false},
	}
	for _, c := range corruptions() {
		if c.name != "sorted set" && (c.name == `"-1.0"` || !strings.HasPrefix(c.name, `"`)) { // one string is like another
			all = append(all, c)
		}
	}
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, c := range all {
			t.Run(c.name, func(t *testing.T) {
				store := newStore(t, client, rule{})
				w := &world{Store: store, slack: serverSlack}
				keys := store.Keys("acme")
				spoil(t, client, c, keys.Pending, 100*time.Hour)
				before := contents(t, client, keys.Count, keys.Pending)
				calls := documentCalls(t, store, "acme", "a")
				calls["Peek"] = func() error { _, err := store.Peek(t.Context(), "acme"); return err }
				for name, call := range calls {
					err := call()
					wantCorrupt(t, err, keys.Pending)
					if later := c.name == "a later version"; strings.Contains(fmt.Sprint(err), c.name) != later {
						t.Errorf("%s: %v", name, err)
					}
					if strings.HasSuffix(name, "N") {
						wantBatchError(t, err, 1, map[int]error{0: priority.ErrCorrupt})
					}
				}
				if after := contents(t, client, keys.Count, keys.Pending); after != before {
					t.Errorf("the keys hold %s, before %s", after, before)
				}
				if many, err := store.SubmitN(t.Context(), "acme", []string{"a", "c", "a"}, nil); !slices.Equal(many, make([]priority.Decision, 3)) {
					t.Errorf("SubmitN: %v, %v", many, err)
				}
				w.next(t, "acme", counted(0))
				w.reset(t, "acme")
				w.submit(t, "acme", "a", flood(1)[0])
			})
		}
	})
}

// spoil makes a key hold something else; no TTL: forever.
func spoil(t *testing.T, client *redis.Client, c corruption, key string, ttl time.Duration) {
	t.Helper()
	must(client.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		tx.Del(t.Context(), key)
		c.spoil(tx, key)
		if ttl > 0 {
			tx.PExpire(t.Context(), key, ttl)
		}
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
		case "stream":
			value = client.XRange(ctx, key, "-", "+").Val()
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
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		count := "priority:{acme}:count"
		keys := []string{count, "priority:{acme}:pending"}
		eval := func(text string, keys []string, args ...any) ([]int64, error) {
			return client.Eval(t.Context(), text, keys, args...).Int64Slice()
		}
		must(eval(lua.Next, keys[:1]))(t)
		w.nextN(t, "acme", 2, countdown(-1, 2)...)
		w.counts(t, "acme", counted(-2))
		must(eval(lua.Submit, keys[1:], "a", 0, "b", 0))(t)
		w.submit(t, "acme", "b", flood(2)[1])
		must(eval(lua.Done, keys[1:], 0, "a"))(t)
		w.pends(t, "acme", 1)

		// What is no number of documents changes nothing.
		before := contents(t, client, keys...)
		for _, n := range []any{"0", "01", "-1", "1000001", "1.5", "x", "", " 1", "1e3", "0x10", "99999999999999999999"} {
			if _, err := eval(lua.Next, keys[:1], n); err == nil || !strings.HasPrefix(err.Error(), "ERR the number of documents") {
				t.Errorf("next.lua with %q documents: %v", n, err)
			}
		}
		for _, n := range []int{0, 1, 3, 199, 201, 202, 5000} {
			if _, err := eval(lua.Submit, keys[1:], slices.Repeat([]any{"1"}, n)...); err == nil || !strings.HasPrefix(err.Error(), "ERR the number of documents") {
				t.Errorf("submit.lua with %d arguments: %v", n, err)
			}
		}
		for _, cost := range []string{"", "-1", "100001", "1000000", "0000001", "1.5", "1e2", " 1", "nan", "x", "b"} {
			for _, args := range [][]any{{"c", cost}, {"c", "1", "d", cost}} {
				if _, err := eval(lua.Submit, keys[1:], args...); err == nil || !strings.HasPrefix(err.Error(), "ERR the cost") {
					t.Errorf("submit.lua with %q: %v", args, err)
				}
			}
		}
		for _, cost := range []string{"", "-1", "1000000", "1.5", "x", "b"} {
			if _, err := eval(lua.Done, keys[1:], cost, "c"); err == nil || !strings.HasPrefix(err.Error(), "ERR the cost") {
				t.Errorf("done.lua with the cost %q: %v", cost, err)
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
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	f.Cleanup(func() { _ = client.Close() })
	store := openStore(f, client, &priority.RedisOptions{Prefix: "p%7D:"})
	for i, customer := range oddCustomers {
		f.Add(customer, oddCustomers[(i+1)%len(oddCustomers)])
		f.Add(customer, customer+"}")
		f.Add(customer, strings.ReplaceAll(strings.ReplaceAll(customer, "%", "%25"), "}", "%7D"))
		f.Add(customer, strings.ToUpper(customer))
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

// An override ends by its TTL, and a store that is not asked to reads none.
func TestOverride_Ends(t *testing.T) {
	server := miniredis.RunT(t)
	client := connectToMiniredis(t, server)
	reads := openStore(t, client, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	store := &world{Store: reads}
	other := &world{Store: openStore(t, client, &priority.RedisOptions{Timeout: time.Minute})}
	client.Set(t.Context(), reads.Keys("acme").Override, "=7", time.Minute)
	want := priority.Decision{Level: 7, Count: 0, ResetIn: quiet, RuleLevel: 1}
	store.next(t, "acme", want)
	other.next(t, "acme", counted(-1))
	if state := must(store.Peek(t.Context(), "acme"))(t); state.NextLevel != 7 || state.OverrideEndsIn != time.Minute ||
		state.Override != (priority.Override{Earliest: 7, Latest: 7}) || state.RuleLevel != 1 {
		t.Errorf("got %+v", state)
	}
	if state := must(other.Peek(t.Context(), "acme"))(t); state.NextLevel != 1 || state.Override != (priority.Override{}) {
		t.Errorf("got %+v from a store that reads no overrides", state)
	}
	server.FastForward(time.Minute + ms)
	store.next(t, "acme", counted(-2))
}

func TestOverride_Text(t *testing.T) {
	for text, want := range map[string]priority.Override{
		"=1": {Earliest: 1, Latest: 1}, ">=7": {Earliest: 7}, "<=3": {Latest: 3}, "=255": {Earliest: 255, Latest: 255},
	} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s is %+v, %v", text, got, err)
		}
		if again := string(must(want.MarshalText())(t)); again != text {
			t.Errorf("%+v is %s, want %s", want, again, text)
		}
	}
	for _, text := range []string{"", "1", "=", "=0", "=01", "= 1", "=-1", "=1000", ">7", ">=7x", "<=", "=1\n"} {
		var got priority.Override
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, priority.ErrInvalid) || got != (priority.Override{}) {
			t.Errorf("%q is %+v, %v", text, got, err)
		}
	}
	for _, override := range []priority.Override{{}, {Earliest: 2, Latest: 5}, {Earliest: -1}, {Latest: -1, Earliest: -1}, {Earliest: 1000}} {
		if text, err := override.MarshalText(); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%+v is %s, %v", override, text, err)
		}
	}
	levels := func(o priority.Override) (levels []priority.Level) {
		for level := range priority.Level(5) {
			levels = append(levels, o.Level(level+1, 5))
		}
		return levels
	}
	for want, override := range map[[5]priority.Level]priority.Override{
		{1, 2, 3, 4, 5}: {}, {3, 3, 3, 3, 3}: {Earliest: 3, Latest: 3}, {3, 3, 3, 4, 5}: {Earliest: 3},
		{1, 2, 2, 2, 2}: {Latest: 2}, {5, 5, 5, 5, 5}: {Earliest: 9, Latest: 9},
	} {
		if got := levels(override); !slices.Equal(got, want[:]) {
			t.Errorf("%+v: %v, want %v", override, got, want)
		}
	}
}

// Nothing that is there is touched by the look for an override.
func TestOverride_TouchesNothing(t *testing.T) {
	server := redistest.Start(t)
	hand := server.Client()
	store := openStore(t, server.Client(), &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
	ctx := context.Background()
	hand.RPush(ctx, store.Keys("acme").Override, "=1")
	hand.RPush(ctx, store.Keys("bad").Pending, "1")
	for range 3 {
		if decision, err := store.Next(ctx, "acme"); err != nil || decision.RuleLevel != decision.Level {
			t.Errorf("%+v, %v", decision, err)
		}
	}
	if _, err := store.Submit(ctx, "bad", "a", 0); !errors.Is(err, priority.ErrCorrupt) {
		t.Errorf("a list in the place of pending documents: %v", err)
	}
	if got := hand.LRange(ctx, store.Keys("acme").Override, 0, -1).Val(); !reflect.DeepEqual(got, []string{"=1"}) {
		t.Errorf("the override's key holds %v", got)
	}
	if count := hand.Get(ctx, store.Keys("acme").Count).Val(); count != "-2" {
		t.Errorf("the count is %s", count)
	}
}
