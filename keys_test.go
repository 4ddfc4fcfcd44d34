package priority_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/lua"
)

// What is in Redis: the keys, their values and TTLs, which programs in other
// languages share.

func TestACustomerHasTwoKeysWithATTL(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, test := range []struct{ prefix, customer, count, pending string }{
			{"", "acme", "priority:{acme}:count", "priority:{acme}:pending"},
			{"", "{}", "priority:{{%7D}:count", "priority:{{%7D}:pending"},
			{"", "100%", "priority:{100%25}:count", "priority:{100%25}:pending"},
			{"", "%7D}", "priority:{%257D%7D}:count", "priority:{%257D%7D}:pending"},
			{"", "a\x00b\n", "priority:{a\x00b\n}:count", "priority:{a\x00b\n}:pending"},
			{"", "\xff:pending", "priority:{\xff:pending}:count", "priority:{\xff:pending}:pending"},
			{"fleet-1", "acme", "fleet-1:{acme}:count", "fleet-1:{acme}:pending"},
			{"a:%", "%", "a:%:{%25}:count", "a:%:{%25}:pending"},
		} {
			store := openStore(t, client, &priority.RedisOptions{Prefix: test.prefix, Timeout: -1, Lease: 2 * quiet})
			if count, pending := store.Key(test.customer), store.PendingKey(test.customer); count != test.count || pending != test.pending {
				t.Errorf("prefix %q, %q: keys %q and %q, want %q and %q", test.prefix, test.customer, count, pending, test.count, test.pending)
			}
			before := time.Now()
			_, err1 := store.NextN(t.Context(), test.customer, 5)
			_, err2 := store.SubmitN(t.Context(), test.customer, []string{"b", "a\x00"})
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			if got := client.Get(t.Context(), test.count).Val(); got != "-6" {
				t.Errorf("after 7 documents of %q the key holds %q", test.customer, got)
			}
			wantTTL(t, client, test.count, quiet)
			wantTTL(t, client, test.pending, 2*quiet)
			held := client.ZRangeWithScores(t.Context(), test.pending, 0, -1).Val()
			if len(held) != 2 || held[0].Member != "a\x00" || held[1].Member != "b" {
				t.Fatalf("pending of %q: %v", test.customer, held)
			}
			for _, document := range held {
				if left := time.UnixMilli(int64(document.Score)).Sub(before); left < 2*quiet-time.Second || left > 2*quiet+handSlack {
					t.Errorf("the lease of %v ends in %v, want %v", document, left, 2*quiet)
				}
			}
		}
		if n := client.DBSize(t.Context()).Val(); n != 16 {
			t.Errorf("%d keys, want 16", n)
		}

		// The last Done leaves no empty set.
		w := storeOf(t, client)
		w.submit(t, "globex", "a", pending(0, 1))
		w.done(t, "globex", "a")
		if n := client.Exists(t.Context(), "priority:{globex}:pending").Val(); n != 0 {
			t.Error("there is a key of no pending documents")
		}
	})
}

// Each check restores a missing TTL and cuts one that is longer than the policy's
// interval, as after the policy was changed; one that is shorter it renews as the
// mode says. Nothing else changes a TTL.
func TestEachCheckSetsTheTTLThatThePolicyWants(t *testing.T) {
	t.Parallel()
	const interval, longer, shorter = 5 * time.Hour, 50 * time.Hour, time.Hour
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, mode := range bothModes {
			store := newStore(t, client, rule{policy: priority.Policy{ResetInterval: interval, ResetMode: mode}})
			w := &world{Store: store, slack: handSlack}
			w.submit(t, "acme", "known", left(interval, pending(0, 1)))
			key, n := store.Key("acme"), 0
			set := func(ttl time.Duration) {
				client.Persist(t.Context(), key)
				if ttl > 0 {
					client.PExpire(t.Context(), key, ttl)
				}
			}
			checks := countingCalls(t, store, "acme")
			for name, call := range map[string]func(document string) error{
				"Submit": func(id string) error { _, err := store.Submit(t.Context(), "acme", id); return err },
				"SubmitN": func(id string) error {
					_, err := store.SubmitN(t.Context(), "acme", []string{"known", id})
					return err
				},
				"Settle": func(string) error {
					_, err := store.Settle(t.Context(), []priority.Owed{{Customer: "acme", Documents: 2}})
					return err
				},
			} {
				checks[name] = func() error { n++; return call(fmt.Sprint("new ", n)) }
			}
			for name, check := range checks {
				renewed := interval
				if mode == priority.SinceLastReset {
					renewed = shorter
				}
				for before, want := range map[time.Duration]time.Duration{0: interval, longer: interval, shorter: renewed} {
					set(before)
					if err := check(); err != nil {
						t.Fatalf("%s: %v", name, err)
					}
					if wantTTL(t, client, key, want); t.Failed() {
						t.Fatalf("%v, %s: the TTL was %v", mode, name, before)
					}
					if decision, err := store.Peek(t.Context(), "acme"); err != nil || !w.agree(left(decision.ResetIn, counted(0)), left(want, counted(0))) {
						t.Errorf("%v, %s: Peek = %+v, %v, want ResetIn %v", mode, name, decision, err, want)
					}
				}
			}
			for name, call := range map[string]func() error{
				"Peek":         func() error { _, err := store.Peek(t.Context(), "acme"); return err },
				"Done":         func() error { return store.Done(t.Context(), "acme", "unknown", 0) },
				"Submit again": func() error { _, err := store.Submit(t.Context(), "acme", "known"); return err },
			} {
				for _, ttl := range []time.Duration{0, longer, shorter} {
					set(ttl)
					before := client.PTTL(t.Context(), key).Val()
					if err := call(); err != nil {
						t.Fatal(err)
					}
					if after := client.PTTL(t.Context(), key).Val(); after > before || after < before-handSlack {
						t.Errorf("%v, %s: the TTL was %v and is %v", mode, name, before, after)
					}
				}
			}
		}
	})
}

// Each Submit restores the TTL of the pending documents, which Peek and Done leave.
// Processes with different leases shorten nothing that another one set.
func TestNoProcessShortensALease(t *testing.T) {
	t.Parallel()
	const short, long = 5 * time.Minute, time.Hour
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		shortStore := openStore(t, client, &priority.RedisOptions{Lease: short, Timeout: -1})
		longStore := openStore(t, client, &priority.RedisOptions{Lease: long, Timeout: -1})
		key := shortStore.PendingKey("acme")
		submit := func(store *priority.RedisStore, documents ...string) {
			t.Helper()
			if _, err := store.SubmitN(t.Context(), "acme", documents); err != nil {
				t.Fatal(err)
			}
		}
		wantLease := func(document string, want time.Duration) {
			t.Helper()
			ends := time.UnixMilli(int64(client.ZScore(t.Context(), key, document).Val()))
			if left := time.Until(ends); left > want+time.Second || left < want-handSlack {
				t.Errorf("the lease of %q ends in %v, want %v", document, left, want)
			}
		}
		submit(longStore, "a")
		submit(shortStore, "a", "b")
		wantLease("a", long)
		wantLease("b", short)
		wantTTL(t, client, key, long)
		submit(longStore, "b")
		wantLease("b", long)

		client.Del(t.Context(), key)
		submit(shortStore, "a")
		wantTTL(t, client, key, short)
		submit(longStore, "b")
		wantTTL(t, client, key, long)
		wantLease("a", short)

		w := &world{Store: shortStore, slack: handSlack}
		client.Persist(t.Context(), key)
		w.peek(t, "acme", pending(-3, 2))
		w.done(t, "acme", "a")
		if ttl := client.PTTL(t.Context(), key).Val(); ttl != -1 {
			t.Errorf("Peek or Done gave the pending documents the TTL %v", ttl)
		}
		submit(shortStore, "b") // even of a document that is pending
		wantTTL(t, client, key, short)
	})
}

// TestTheCountGoesDownUntilExactlyTheEnd puts a key in front of the script that
// expires in the very millisecond in which the script runs, or one before. Redis
// does not let a key expire while a script runs, so nothing here depends on how
// fast it is.
func TestTheCountGoesDownUntilExactlyTheEnd(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	skipBefore(t, client, 7)
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
			redistest.Skip(t, "this server removes a key that is set to expire now before its time is over: test on Redis 7.0")
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

// TestALeaseHoldsUntilExactlyItsEnd does the same with leases, and looks whether the
// pending documents are kept as long as their leases.
func TestALeaseHoldsUntilExactlyItsEnd(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	skipBefore(t, client, 7)
	keys := []string{"priority:{acme}:count", "priority:{acme}:pending"}
	run := func(text string, args ...any) []int64 {
		t.Helper()
		return must(client.Eval(t.Context(), text, keys, args...).Int64Slice())(t)
	}
	const ends = `
		local t = redis.call('TIME')
		redis.call('DEL', KEYS[1], KEYS[2])
		redis.call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) - %d, 'a')
	`
	isCounted := func() bool { return client.Exists(t.Context(), keys[0]).Val() == 1 }
	redistest.Await(t, "Submit sees a lease at its end", func() bool {
		return run(fmt.Sprintf(ends, 0)+lua.Submit, "a")[2] == 1 && !isCounted()
	})
	redistest.Await(t, "Peek sees a lease at its end", func() bool { return run(fmt.Sprintf(ends, 0) + lua.Peek)[2] == 1 })
	for range 100 {
		if reply := run(fmt.Sprintf(ends, 1)+lua.Submit, "a"); reply[2] != 1 || !isCounted() {
			t.Fatalf("Submit one millisecond after the end of a lease: %v, counted %t", reply, isCounted())
		}
		if reply := run(fmt.Sprintf(ends, 1) + lua.Peek); reply[2] != 0 {
			t.Fatalf("Peek one millisecond after the end of a lease: %v", reply)
		}
		reply := run("local function submit()\n"+lua.Submit+"\nend\nsubmit()\n"+`
			return {redis.call('PEXPIRETIME', KEYS[2]) - redis.call('ZSCORE', KEYS[2], 'a')}
		`, "a")
		if reply[0] < 0 {
			t.Fatalf("the pending documents expire %d ms before the lease ends", -reply[0])
		}
	}
}

// skipBefore skips a test on servers older than a major version.
func skipBefore(t *testing.T, client *redis.Client, major int) {
	t.Helper()
	var version int
	_, after, _ := strings.Cut(client.Info(t.Context(), "server").Val(), "redis_version:")
	if _, err := fmt.Sscanf(after, "%d.", &version); err != nil {
		t.Fatalf("INFO server: %v", err)
	}
	if version < major {
		redistest.Skip(t, fmt.Sprintf("Redis %d cannot do what this test needs: install %d or later", version, major))
	}
}

// A count above 0 is none that a store writes, but it is a count.
func TestAPositiveCountGoesDownToo(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		client.Set(t.Context(), "priority:{acme}:count", "3", quiet)
		w.peek(t, "acme", priority.Decision{Level: 1, Count: 3, ResetIn: quiet})
		w.submit(t, "acme", "a", priority.Decision{Level: 1, Count: 2, Pending: 1, ResetIn: quiet})
		w.next(t, "acme", priority.Decision{Level: 1, Count: 1, ResetIn: quiet})
		w.nextN(t, "acme", 2, counted(0), counted(-1))
	})
}

// Lua's numbers are exact up to 15 digits. A count that would need more counts
// nothing more, by whatever call.
func TestACountWithoutRoomIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	const last = -999_999_999_999_999
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		key := "priority:{acme}:count"
		client.Set(t.Context(), key, last+1, quiet)
		w.next(t, "acme", counted(last))
		for name, call := range everyCall(t, w, "acme", "a") {
			if name == "Peek" || name == "Done" || name == "DoneN" || name == "Reset" {
				continue
			}
			wantCorrupt(t, call(), key)
			if held := client.Get(t.Context(), key).Val(); held != fmt.Sprint(last) {
				t.Fatalf("%s: the key holds %s, want %d", name, held, last)
			}
		}
		w.peek(t, "acme", counted(last))
	})
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
	value(false, "abc", "1.5", "-1.0", "", " 5", "5 ", "0x10", "1e3", "nan", "-", "--1", "5\n", "5\x00", "\x00", "\xff",
		"123456789012345678901234567890", "-123456789012345678901234567890",
		"9223372036854775808", "-9223372036854775808", "9223372036854775807", "-9223372036854775807",
		"1000000000000000", "1000000000000001", "1000000000000009", "-1000000000000000", strings.Repeat("1", 1000))
	value(true, "+5", "007", "-007", "-0", "00", strings.Repeat("0", 1000))
	return all
}

// A corrupt count fails every call that would count or tell it, and is left as it
// is, as are the pending documents. Other customers and Done do not notice.
func TestACorruptCountIsReportedAndLeftAsItIs(t *testing.T) {
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
	w := &world{Store: store, slack: handSlack}
	w.submitN(t, "acme", []string{"a", "b"}, submitted(0, 1, 2)...)
	key := store.Key("acme")
	spoil(t, client, c, key, ttl)
	before := contents(t, client, key, store.PendingKey("acme"))
	untouched := func(call string) {
		t.Helper()
		if after := contents(t, client, key, store.PendingKey("acme")); after != before {
			t.Fatalf("%s: the keys hold %s, before %s", call, after, before)
		}
	}
	for _, document := range []string{"a", "c"} { // pending, and new
		for name, call := range everyCall(t, store, "acme", document) {
			if name != "Done" && name != "DoneN" && name != "Reset" {
				wantCorrupt(t, call(), key)
				untouched(name)
			}
		}
		submits, err := store.SubmitN(ctx, "acme", []string{document, "a", document})
		wantBatchError(t, err, 3, map[int]error{0: priority.ErrCorruptCount, 1: priority.ErrCorruptCount, 2: priority.ErrCorruptCount})
		if !slices.Equal(submits, make([]priority.Decision, 3)) {
			t.Errorf("SubmitN: decisions %v", submits)
		}
	}

	each, err := store.NextEach(ctx, []string{"globex", "acme", "initech", "acme", "globex"})
	wantBatchError(t, err, 5, map[int]error{1: priority.ErrCorruptCount, 3: priority.ErrCorruptCount})
	if want := []priority.Decision{counted(0), {}, counted(0), {}, counted(-1)}; !slices.Equal(each, want) {
		t.Errorf("NextEach = %+v, want %+v", each, want)
	}
	settled, err := w.Settle(ctx, []priority.Owed{{Customer: "globex", Documents: 1}, {Customer: "acme", Documents: 1}})
	wantBatchError(t, err, 2, map[int]error{1: priority.ErrCorruptCount})
	if want := []priority.Decision{counted(-2), {}}; !w.agreeAll(settled, want) {
		t.Errorf("Settle = %+v, want %+v", settled, want)
	}
	untouched("a call about others too")

	w.doneN(t, "acme", "a")
	w.done(t, "acme", "b")
	w.reset(t, "acme")
	w.submit(t, "acme", "a", pending(0, 1))
}

// The same of a key of pending documents. Next does not look at it.
func TestCorruptPendingIsReportedAndLeftAsItIs(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, c := range corruptions() {
			if c.name == "sorted set" || strings.HasPrefix(c.name, `"`) && c.name != `"-1.0"` {
				continue // one string is like another
			}
			t.Run(c.name, func(t *testing.T) {
				store := newStore(t, client, rule{})
				w := &world{Store: store, slack: handSlack}
				w.submitN(t, "acme", []string{"a", "b"}, submitted(0, 1, 2)...)
				key := store.PendingKey("acme")
				spoil(t, client, c, key, 100*time.Hour)
				before := contents(t, client, store.Key("acme"), key)
				calls := documentCalls(t, store, "acme", "a")
				calls["Peek"] = func() error { _, err := store.Peek(t.Context(), "acme"); return err }
				for name, call := range calls {
					err := call()
					wantCorrupt(t, err, key)
					if strings.HasSuffix(name, "N") {
						wantBatchError(t, err, 1, map[int]error{0: priority.ErrCorruptCount})
					}
				}
				if after := contents(t, client, store.Key("acme"), key); after != before {
					t.Errorf("the keys hold %s, before %s", after, before)
				}
				w.next(t, "acme", counted(-2))
				w.reset(t, "acme")
				w.submit(t, "acme", "a", pending(0, 1))
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
// stores of the default policy.
func TestOtherLanguagesRunTheScriptsAsPrinted(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := storeOf(t, client)
		count, pendingKey := "priority:{acme}:count", "priority:{acme}:pending"
		both := []string{count, pendingKey}
		eval := func(text string, keys []string, args ...any) ([]int64, error) {
			return client.Eval(t.Context(), text, keys, args...).Int64Slice()
		}
		// wants compares a reply but for the time until the reset.
		wants := func(reply []int64, err error) func(want ...int64) {
			return func(want ...int64) {
				t.Helper()
				if err != nil || len(reply) < len(want) || len(reply) > len(want)+1 || !slices.Equal(reply[:len(want)], want) {
					t.Fatalf("the reply is %v, %v, want %v", reply, err, want)
				}
			}
		}
		wants(eval(lua.Peek, both))(1, 0, 0)
		for count := int64(0); count > -42; count -= 7 {
			wants(eval(lua.Next, both[:1]))(int64(counted(count).Level), count)
			w.next(t, "acme", counted(count-1))
			wants(eval(lua.Next, both[:1], 3))(int64(counted(count-4).Level), count-4)
			w.nextN(t, "acme", 2, countdown(count-5, 2)...)
			wants(eval(lua.Peek, both))(int64(counted(count-6).Level), count-6, 0)
		}
		wants(eval(lua.Settle, both[:1], 5, -41))(1, 9, -46)
		wants(eval(lua.Settle, both[:1], 5, -47))(0, 0, 0)
		wants(eval(lua.Next, both[:1], 1_000_000))(9, -1_000_046)
		w.peek(t, "acme", counted(-1_000_046))

		wants(eval(lua.Reset, both))(1)
		wants(eval(lua.Reset, both))(0)
		wants(eval(lua.Submit, both, "a"))(1, 0, 1)
		w.submit(t, "acme", "a", pending(0, 1))
		w.submit(t, "acme", "b", pending(-1, 2))
		wants(eval(lua.Submit, both, "b", "c", "c", "d"))(1, -1, 2, 1, -2, 3, 1, -2, 3, 2, -3, 4)
		wants(eval(lua.Peek, both))(2, -3, 4)
		wants(eval(lua.Done, both[1:], "a", "a", "unknown", "d"))(2)
		w.peek(t, "acme", pending(-3, 2))

		// What is no number of documents changes nothing.
		before := contents(t, client, both...)
		for _, n := range []any{"0", "-1", "1000001", "1.5", "x", "", " 1", "1e3", "0x10", "99999999999999999999"} {
			if _, err := eval(lua.Next, both[:1], n); err == nil || !strings.HasPrefix(err.Error(), "ERR the number of documents") {
				t.Errorf("next.lua with %q documents: %v", n, err)
			}
		}
		for _, n := range []int{0, 101, 1000, 5000} {
			if _, err := eval(lua.Submit, both, make([]any, n)...); err == nil || !strings.HasPrefix(err.Error(), "ERR the number of documents") {
				t.Errorf("submit.lua with %d documents: %v", n, err)
			}
		}
		if after := contents(t, client, both...); after != before {
			t.Errorf("the keys hold %s, before %s", after, before)
		}

		// What is no count has a code of its own, and stays.
		client.Set(t.Context(), count, "abc", time.Hour)
		for name, call := range map[string]func() ([]int64, error){
			"next.lua":   func() ([]int64, error) { return eval(lua.Next, both[:1]) },
			"settle.lua": func() ([]int64, error) { return eval(lua.Settle, both[:1], 1, 0) },
			"submit.lua": func() ([]int64, error) { return eval(lua.Submit, both, "a") },
			"peek.lua":   func() ([]int64, error) { return eval(lua.Peek, both) },
		} {
			if _, err := call(); err == nil || !strings.HasPrefix(err.Error(), "CORRUPTCOUNT ") {
				t.Errorf("%s on a corrupt count: %v", name, err)
			}
		}
		if got := client.Get(t.Context(), count).Val(); got != "abc" {
			t.Errorf("the corrupt count became %q", got)
		}
	})
}

// The scripts that a store tells are those of the customer's policy and its lease.
func TestAStoreTellsItsScripts(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		plain := openStore(t, client, nil)
		if plain.NextScript("acme") != lua.Next || plain.SubmitScript("acme") != lua.Submit || plain.PeekScript("acme") != lua.Peek {
			t.Error("the default policy's scripts are not those of package lua")
		}
		r := tiers()
		store := newStore(t, client, r)
		w := &world{Store: store, slack: handSlack}
		for _, customer := range []string{"acme", "gold acme"} {
			keys := []string{store.Key(customer), store.PendingKey(customer)}
			eval := func(text string, keys []string, args ...any) []int64 {
				return must(client.Eval(t.Context(), text, keys, args...).Int64Slice())(t)
			}
			policy := r.policyOf(customer)
			for count := int64(0); count > -9; count -= 3 {
				decided := priority.Decision{Level: policy.Level(count), Count: count, ResetIn: policy.ResetInterval}
				if got := eval(store.NextScript(customer), keys[:1]); !slices.Equal(got[:2], []int64{int64(decided.Level), count}) {
					t.Fatalf("the script of %q replied %v, want %+v", customer, got, decided)
				}
				decided.Count, decided.Level = count-1, policy.Level(count-1)
				w.next(t, customer, decided)
				got := eval(store.SubmitScript(customer), keys, fmt.Sprint(count))
				decided.Count, decided.Pending = count-2, 1-count/3
				decided.Level = (policy.Level(count-2) + policy.Level(1-decided.Pending) + 1) / 2
				want := []int64{int64(decided.Level), decided.Count, decided.Pending}
				if peeked := eval(store.PeekScript(customer), keys); !slices.Equal(got[:3], want) || !slices.Equal(peeked[:3], want) {
					t.Fatalf("the scripts of %q replied %v and %v, want %v", customer, got, peeked, want)
				}
				w.peek(t, customer, decided)
			}
			wantTTL(t, client, keys[0], policy.ResetInterval)
			wantTTL(t, client, keys[1], r.lease)
		}
	})
}
