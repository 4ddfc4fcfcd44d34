package priority_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// trackerOf is a tracker on the default keys of a client, without a timeout.
func trackerOf(t testing.TB, client priority.RedisClient) *tracking {
	t.Helper()
	return &tracking{Tracker: openTracker(t, client, patient), slack: handSlack}
}

// The keys are what programs in other languages use too: these two a customer,
// with a TTL each, and nothing else.
func TestTrackerKeys(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, test := range []struct{ prefix, customer, count, pending string }{
			{"", "acme", "priority:{acme}:count", "priority:{acme}:pending"},
			{"", "{}", "priority:{{%7D}:count", "priority:{{%7D}:pending"},
			{"", "%7D}", "priority:{%257D%7D}:count", "priority:{%257D%7D}:pending"},
			{"", "\xff:pending", "priority:{\xff:pending}:count", "priority:{\xff:pending}:pending"},
			{"fleet-1", "acme", "fleet-1:{acme}:count", "fleet-1:{acme}:pending"},
		} {
			tracker := openTracker(t, client, &priority.RedisOptions{Prefix: test.prefix, Timeout: -1, Lease: 2 * quiet})
			if count, pending := tracker.Key(test.customer), tracker.PendingKey(test.customer); count != test.count || pending != test.pending {
				t.Errorf("prefix %q, %q: keys %q and %q, want %q and %q", test.prefix, test.customer, count, pending, test.count, test.pending)
			}
			before := time.Now()
			if _, err := tracker.SubmitN(t.Context(), test.customer, []string{"b", "a\x00"}); err != nil {
				t.Fatal(err)
			}
			if got := client.Get(t.Context(), test.count).Val(); got != "-1" {
				t.Errorf("after 2 documents of %q the key holds %q", test.customer, got)
			}
			wantTTL(t, client, test.count, quiet)
			wantTTL(t, client, test.pending, 2*quiet)
			held := client.ZRangeWithScores(t.Context(), test.pending, 0, -1).Val()
			if len(held) != 2 || held[0].Member != "a\x00" || held[1].Member != "b" {
				t.Fatalf("pending of %q: %v", test.customer, held)
			}
			for _, document := range held {
				until := time.UnixMilli(int64(document.Score))
				if lease := until.Sub(before); lease < 2*quiet-time.Second || lease > 2*quiet+handSlack {
					t.Errorf("the lease of %v ends in %v, want %v", document, lease, 2*quiet)
				}
			}
		}
		if n := client.DBSize(t.Context()).Val(); n != 10 {
			t.Errorf("%d keys, want 10", n)
		}

		// The last Done leaves no empty set.
		w := trackerOf(t, client)
		w.submit(t, "globex", "a", pending(0, 1))
		w.done(t, "globex", "a")
		if n := client.Exists(t.Context(), "priority:{globex}:pending").Val(); n != 0 {
			t.Error("there is a key of no pending documents")
		}
	})
}

// Every Submit renews the TTL of the pending documents, and that of the count as
// the mode says, but not for a document that is pending. Done and Peek renew none.
func TestTrackerTTL(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			tracker := newTracker(t, client, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}})
			count, pendingKey := tracker.Key("acme"), tracker.PendingKey("acme")
			w := &tracking{Tracker: tracker, slack: handSlack}
			const short = 5 * time.Minute
			shorten := func() {
				client.PExpire(t.Context(), count, short)
				client.PExpire(t.Context(), pendingKey, short)
			}
			w.submit(t, "acme", "a", pending(0, 1))
			shorten()
			w.submit(t, "acme", "a", left(short, pending(0, 1)))
			wantTTL(t, client, count, short)
			wantTTL(t, client, pendingKey, lease)

			shorten()
			w.peek(t, "acme", left(short, pending(0, 1)))
			w.done(t, "acme", "unknown")
			wantTTL(t, client, count, short)
			wantTTL(t, client, pendingKey, short)

			interval := quiet
			if mode == priority.SinceLastReset {
				interval = short
			}
			w.submit(t, "acme", "b", left(interval, pending(-1, 2)))
			wantTTL(t, client, count, interval)
			wantTTL(t, client, pendingKey, lease)

			// Keys without a TTL are given one, whether a document is new or not.
			client.Persist(t.Context(), pendingKey)
			w.peek(t, "acme", left(interval, pending(-1, 2)))
			if ttl := client.PTTL(t.Context(), pendingKey).Val(); ttl != -1 {
				t.Errorf("Peek gave the pending documents the TTL %v", ttl)
			}
			w.submit(t, "acme", "a", left(interval, pending(-1, 2)))
			wantTTL(t, client, pendingKey, lease)
			client.Persist(t.Context(), count)
			w.submitN(t, "acme", []string{"a", "c"}, pending(-1, 2), pending(-2, 3))
			wantTTL(t, client, count, quiet)
		}
	})
}

// TestLeaseOnServer puts a lease in front of the scripts that ends in the very
// millisecond in which they run, or one before; and looks whether the pending
// documents are kept as long as their leases.
func TestLeaseOnServer(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	skipBefore(t, client, 7)
	keys := []string{"priority:{acme}:count", "priority:{acme}:pending"}
	run := func(text string, args ...any) []int64 {
		t.Helper()
		reply, err := client.Eval(t.Context(), text, keys, args...).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}
	const ends = `
		local t = redis.call('TIME')
		redis.call('DEL', KEYS[1], KEYS[2])
		redis.call('ZADD', KEYS[2], t[1] * 1000 + math.floor(t[2] / 1000) - %d, 'a')
	`
	// A millisecond can begin between the two looks at the clock: hence several
	// tries, in which a lease that is over must never count.
	for name, args := range map[string][]any{"pending.lua": nil, "submit.lua": {"a"}} {
		redistest.Await(t, name+" sees a lease at its end", func() bool {
			return run(fmt.Sprintf(ends, 0)+script(t, name), args...)[2] == 1 && client.Exists(t.Context(), keys[0]).Val() == 0
		})
		for range 100 {
			reply := run(fmt.Sprintf(ends, 1)+script(t, name), args...)
			if counted := client.Exists(t.Context(), keys[0]).Val(); name == "submit.lua" && (reply[2] != 1 || counted != 1) ||
				name == "pending.lua" && reply[2] != 0 {
				t.Fatalf("%s one millisecond after the end of a lease: %v, %d counts", name, reply, counted)
			}
		}
	}
	for range 100 {
		reply := run("local function submit()\n"+script(t, "submit.lua")+"\nend\nsubmit()\n"+`
			return {redis.call('PEXPIRETIME', KEYS[2]) - redis.call('ZSCORE', KEYS[2], 'a')}
		`, "a")
		if reply[0] < 0 {
			t.Fatalf("the pending documents expire %d ms before the lease ends", -reply[0])
		}
	}
}

// A call is one command with the customer's keys: EVALSHA, as soon as the server
// knows the script.
func TestTrackerCallIsOneCommand(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	w := new(wire)
	client.AddHook(w)
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		tracker := newTracker(t, client, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}})
		count, pending := tracker.Key("acme"), tracker.PendingKey("acme")
		both := []string{count, pending}
		counted := map[string]int{"time": 1, "zcount": 1, "zcard": 1, "zscore": 1, "pttl": 1, "decrby": 1, "pexpire": 2, "zadd": 1}
		if mode == priority.SinceLastReset {
			counted["pexpire"] = 1
		}
		n := 1
		if _, err := tracker.SubmitN(t.Context(), "acme", []string{"0", "1"}); err != nil {
			t.Fatal(err)
		}
		for _, test := range []struct {
			name string
			call func() error
			keys []string
			args int
			told map[string]int // within the script
		}{
			{"Submit", func() error { n++; _, err := tracker.Submit(t.Context(), "acme", fmt.Sprint(n)); return err }, both, 1, counted},
			{"Submit again", func() error { _, err := tracker.Submit(t.Context(), "acme", "1"); return err }, both, 1,
				map[string]int{"time": 1, "zcount": 1, "zcard": 1, "zscore": 1, "get": 1, "pttl": 1, "pexpire": 1, "zadd": 1}},
			{"SubmitN", func() error {
				n += 3
				_, err := tracker.SubmitN(t.Context(), "acme", []string{fmt.Sprint(n - 2), fmt.Sprint(n - 1), fmt.Sprint(n)})
				return err
			}, both, 3, func() map[string]int { c := maps.Clone(counted); c["zscore"] = 3; return c }()},
			{"Done", func() error { return tracker.Done(t.Context(), "acme", "2") }, []string{pending}, 1, map[string]int{"zrem": 1}},
			{"DoneN", func() error { return tracker.DoneN(t.Context(), "acme", []string{"3", "2"}) }, []string{pending}, 2, map[string]int{"zrem": 1}},
			{"Peek", func() error { _, err := tracker.Peek(t.Context(), "acme"); return err }, both, 0,
				map[string]int{"get": 1, "pttl": 1, "time": 1, "zcount": 1}},
			{"Reset", func() error { return tracker.Reset(t.Context(), "acme") }, both, 0, map[string]int{"unlink": 1}},
		} {
			for range 3 { // the first teaches the server the script
				w.take()
				told := calls(t, client, func() {
					w.take()
					if err := test.call(); err != nil {
						t.Fatalf("%s: %v", test.name, err)
					}
				})
				if told["eval"] > 0 || told["hello"] > 0 {
					continue
				}
				trips := w.take()
				if len(trips) < 1 || len(trips[0]) != 1 {
					t.Fatalf("%v, %s: sent %v, want one command", mode, test.name, trips)
				}
				args := trips[0][0].Args()
				want := []any{"evalsha", args[1], len(test.keys)}
				for _, key := range test.keys {
					want = append(want, key)
				}
				if len(args) != len(want)+test.args || !slices.Equal(args[:len(want)], want) {
					t.Errorf("%v, %s: sent %v, want EVALSHA with the keys %q and %d arguments", mode, test.name, args, test.keys, test.args)
				}
				test.told["evalsha"] = 1
				if !maps.Equal(told, test.told) {
					t.Errorf("%v, %s: the server did %v, want %v", mode, test.name, told, test.told)
				}
			}
		}
	}
}

// However many documents, a call of many is one round trip, and the server need
// not know the script of those that have an order.
func TestTrackerBatchIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, client priority.RedisClient, w *wire) {
		tracker := trackerOf(t, client)
		trips := func() (commands []int) {
			for _, trip := range w.take() {
				if name := trip[0].Name(); name == "evalsha" || name == "eval" { // and not to connect
					commands = append(commands, len(trip))
				}
			}
			return commands
		}
		ids := documentIDs("invoice", 2345)
		tracker.submitN(t, "acme", ids, submitted(0, 1, len(ids))...)
		if got := trips(); !slices.Equal(got, []int{47}) {
			t.Errorf("SubmitN took round trips of %v commands, want one of 47", got)
		}
		tracker.doneN(t, "acme", ids[1:3]...) // the server learns the script
		trips()
		tracker.doneN(t, "acme", ids[1:]...)
		if got := trips(); len(got) != 1 {
			t.Errorf("DoneN took round trips of %v commands, want one", got)
		}
		tracker.peek(t, "acme", pending(-2344, 1))
	}
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		client, w := redistest.Start(t).Client(), new(wire)
		client.AddHook(w)
		check(t, client, w)
	})
	t.Run("ClusterClient", func(t *testing.T) {
		t.Parallel()
		client, w := redistest.StartCluster(t, 3).Client(), new(wire)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(w) })
		check(t, client, w)
	})
}

// A call that is wrong, or is about no document, does not even connect.
func TestTrackerNothingIsSent(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	tracker := openTracker(t, connect(t, server.Addr()), nil)
	for _, bad := range invalidCustomers {
		for name, call := range trackerCalls(t, tracker, bad.customer, "a") {
			if err := call(); !errors.Is(err, priority.ErrInvalidCustomer) {
				t.Errorf("%s of a customer of %d bytes: %v", name, len(bad.customer), err)
			}
		}
		_, err := tracker.Peek(t.Context(), bad.customer)
		wantInvalid(t, err, priority.ErrInvalidCustomer, bad.shown)
		wantInvalid(t, tracker.Reset(t.Context(), bad.customer), priority.ErrInvalidCustomer, bad.shown)
	}
	for _, bad := range invalidDocuments {
		for name, call := range trackerCalls(t, tracker, "acme", bad.document) {
			if err := call(); !errors.Is(err, priority.ErrInvalidDocument) {
				t.Errorf("%s of a document of %d bytes: %v", name, len(bad.document), err)
			}
		}
	}
	if got, err := tracker.SubmitN(t.Context(), "acme", nil); len(got) != 0 || err != nil {
		t.Errorf("SubmitN of none: %v, %v", got, err)
	}
	if err := tracker.DoneN(t.Context(), "acme", nil); err != nil {
		t.Errorf("DoneN of none: %v", err)
	}
	if n := server.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections and %d commands", n, server.CommandCount())
	}
}

// A tracker calls these commands, scripts included, and no others.
func TestTrackerCommands(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	allowed := []string{
		"evalsha", "eval",
		"get", "set", "decrby", "pexpire", "pttl", "unlink",
		"time", "zadd", "zcard", "zcount", "zrem", "zremrangebyrank", "zscore",
		"hello", "client|setinfo", "client|setname", "client|maint_notifications", // go-redis, to connect
	}
	told := calls(t, client, func() { everyTrackerOperation(t, client) })
	for name := range told {
		if !slices.Contains(allowed, name) {
			t.Errorf("the server was told %q: %v", name, told)
		}
	}
	for _, name := range allowed[2:13] {
		if told[name] == 0 {
			t.Errorf("%q was never needed: %v", name, told)
		}
	}
}

// everyTrackerOperation does all that trackers can do.
func everyTrackerOperation(t *testing.T, client priority.RedisClient) {
	t.Helper()
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		opts := &priority.RedisOptions{Policy: priority.Policy{ResetMode: mode}, Timeout: time.Minute}
		w := &tracking{Tracker: openTracker(t, client, opts), slack: handSlack}
		w.peek(t, "acme", none(0))
		w.submitN(t, "acme", []string{"a", "b", "c"}, submitted(0, 1, 3)...)
		w.submit(t, "acme", "d", pending(-3, 4))
		w.submit(t, "acme", "d", pending(-3, 4))
		w.done(t, "acme", "b")
		w.doneN(t, "acme", "c", "e")
		w.peek(t, "acme", pending(-3, 2))
		w.reset(t, "acme")

		// A lease that ends while another is renewed, and is cleared.
		opts.Lease = time.Second
		w = &tracking{Tracker: openTracker(t, client, opts), slack: handSlack}
		w.submit(t, "acme", "ends", pending(0, 1))
		redistest.Await(t, "the lease has ended", func() bool {
			decision, err := w.Submit(t.Context(), "acme", "renewed")
			if err != nil {
				t.Fatal(err)
			}
			return decision.Pending == 1
		})
		w.reset(t, "acme")
	}
}

// A server forgets its scripts when it is restarted, when it fails over, and when
// it is told to. Nobody may notice.
func TestTrackerScriptFlush(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, client redis.UniversalClient, flush func()) {
		w := trackerOf(t, client)
		ids := documentIDs("invoice", 1000)
		for i := range 4 {
			at := 250 * i
			first := pending(-int64(at), int64(at)+1)
			flush()
			w.submit(t, "acme", ids[at], first)
			flush()
			w.submitN(t, "acme", ids[at:at+250], append([]priority.Decision{first}, submitted(first.Count-1, first.Pending+1, 249)...)...)
			flush()
			w.peek(t, "acme", pending(first.Count-249, first.Pending+249))
		}
		flush()
		w.done(t, "acme", ids[0])
		flush()
		w.doneN(t, "acme", ids[:999]...)
		w.peek(t, "acme", pending(-999, 1))
		flush()
		w.reset(t, "acme")
		w.peek(t, "acme", none(0))
	}
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		check(t, client, func() { client.ScriptFlush(t.Context()) })
	})
	t.Run("ClusterClient", func(t *testing.T) {
		t.Parallel()
		client := redistest.StartCluster(t, 3).Client()
		check(t, client, func() {
			_ = client.ForEachMaster(t.Context(), func(ctx context.Context, node *redis.Client) error {
				return node.ScriptFlush(ctx).Err()
			})
		})
	})
}

// A SubmitN of many keeps its order while the server forgets the script again
// and again, and while it learns it from others.
func TestTrackerScriptFlushDuringCalls(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	w := trackerOf(t, client)
	done := make(chan struct{})
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				client.ScriptFlush(t.Context())
				client.ScriptLoad(t.Context(), script(t, "submit.lua"))
			}
		}
	})
	for i := range 50 {
		customer := fmt.Sprint("customer ", i)
		w.submitN(t, customer, documentIDs("invoice", 2000), submitted(0, 1, 2000)...)
	}
	close(done)
	flushing.Wait()
}

// A store and a tracker of one prefix count together.
func TestStoreAndTrackerAgree(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			opts := &priority.RedisOptions{Policy: priority.Policy{ResetMode: mode}, Prefix: mode.String(), Timeout: -1}
			tracker := &tracking{Tracker: openTracker(t, client, opts), slack: handSlack}
			store := &world{Store: openStore(t, client, opts), slack: handSlack}
			store.next(t, "acme", counted(0))
			tracker.submit(t, "acme", "a", pending(-1, 1))
			store.nextN(t, "acme", 3, countdown(-2, 3)...)
			tracker.submitN(t, "acme", []string{"a", "b", "c"}, pending(-4, 1), pending(-5, 2), pending(-6, 3))
			store.peek(t, "acme", counted(-6))
			store.nextEach(t, []string{"acme", "globex", "acme"}, counted(-7), counted(0), counted(-8))
			tracker.peek(t, "acme", pending(-8, 3))
			tracker.peek(t, "globex", pending(0, 0))
			tracker.submit(t, "globex", "a", pending(-1, 1))
			store.reset(t, "acme") // forgets the count alone
			tracker.peek(t, "acme", none(3))
			tracker.submit(t, "acme", "d", pending(0, 4))
			tracker.reset(t, "acme")
			store.next(t, "acme", counted(0))
		}
	})
}

// A corrupt count stops all that would count or tell it, and is left as it is;
// so are the pending documents. Done has nothing to do with it.
func TestTrackerCorruptCount(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		_, server := client.Info(t.Context(), "memory").Result() // miniredis has none
		for _, c := range spoiled() {
			if c.onlyServer && server != nil {
				continue
			}
			for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
				t.Run(fmt.Sprintf("%v/%s", mode, c.name), func(t *testing.T) {
					tracker := newTracker(t, client, leased{rule: rule{policy: priority.Policy{ResetMode: mode}}})
					w := &tracking{Tracker: tracker, slack: handSlack}
					w.submitN(t, "acme", []string{"a", "b"}, submitted(0, 1, 2)...)
					key := tracker.Key("acme")
					client.Del(t.Context(), key)
					spoil(t, client, c, key)
					before := held(t, client, key, tracker.PendingKey("acme"))
					for _, id := range []string{"a", "c"} { // pending, and new
						_, err := w.Submit(t.Context(), "acme", id)
						wantCorrupt(t, err, key)
						decisions, err := w.SubmitN(t.Context(), "acme", []string{id, "a", id})
						wantCorrupt(t, err, key)
						wantBatchError(t, err, 3, map[int]error{0: priority.ErrCorruptCount, 1: priority.ErrCorruptCount, 2: priority.ErrCorruptCount})
						if len(decisions) != 3 || decisions[0] != (priority.Decision{}) {
							t.Errorf("SubmitN: decisions %v", decisions)
						}
					}
					_, err := w.Peek(t.Context(), "acme")
					wantCorrupt(t, err, key)
					if after := held(t, client, key, tracker.PendingKey("acme")); after != before {
						t.Errorf("the keys hold %s, before %s", after, before)
					}
					w.doneN(t, "acme", "a")
					w.done(t, "acme", "b")
					w.reset(t, "acme")
					w.submit(t, "acme", "a", pending(0, 1))
					w.reset(t, "acme")
				})
			}
		}
	})
}

// A pending key that holds something else stops everything but Reset, is named,
// and is left as it is; so is the count.
func TestCorruptPending(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, c := range spoiled() {
			if c.name == "sorted set" || strings.HasPrefix(c.name, `"`) && c.name != `"-1.0"` {
				continue // one string is like another
			}
			t.Run(c.name, func(t *testing.T) {
				tracker := newTracker(t, client, leased{})
				w := &tracking{Tracker: tracker, slack: handSlack}
				w.submitN(t, "acme", []string{"a", "b"}, submitted(0, 1, 2)...)
				key := tracker.PendingKey("acme")
				client.Del(t.Context(), key)
				spoil(t, client, c, key)
				before := held(t, client, tracker.Key("acme"), key)
				for name, call := range trackerCalls(t, tracker, "acme", "a") {
					err := call()
					wantCorrupt(t, err, key)
					var batch *priority.BatchError
					if got, want := errors.As(err, &batch), strings.HasSuffix(name, "N"); got != want {
						t.Errorf("%s: %#v", name, err)
					}
				}
				_, err := w.Peek(t.Context(), "acme")
				wantCorrupt(t, err, key)
				if after := held(t, client, tracker.Key("acme"), key); after != before {
					t.Errorf("the keys hold %s, before %s", after, before)
				}
				w.reset(t, "acme")
				w.submit(t, "acme", "a", pending(0, 1))
				w.reset(t, "acme")
			})
		}
	})
}

// spoil makes a key hold something else, with a TTL that is not a tracker's.
func spoil(t *testing.T, client *redis.Client, c corruption, key string) {
	t.Helper()
	_, err := client.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
		c.spoil(tx, key)
		tx.PExpire(t.Context(), key, 100*time.Hour)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// held shows all that some keys hold, and whether their TTLs are a tracker's.
func held(t *testing.T, client *redis.Client, keys ...string) string {
	t.Helper()
	var all strings.Builder
	for _, key := range keys {
		ttl := client.PTTL(t.Context(), key).Val().Round(20 * time.Minute)
		kind := client.Type(t.Context(), key).Val()
		var value any
		switch kind {
		case "string":
			value = client.Get(t.Context(), key).Val()
		case "list":
			value = client.LRange(t.Context(), key, 0, -1).Val()
		case "hash":
			value = client.HGetAll(t.Context(), key).Val()
		case "set":
			value = client.SMembers(t.Context(), key).Val()
		case "zset":
			value = client.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "stream":
			value = client.XRange(t.Context(), key, "-", "+").Val()
		default:
			t.Fatalf("%q is of the kind %q", key, kind)
		}
		fmt.Fprintf(&all, "%q: %s %.50q for %v; ", key, kind, fmt.Sprint(value), ttl)
	}
	return all.String()
}

// A look changes nothing, by what the server itself says.
func TestTrackerPeekWritesNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	commands, err := client.Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	w := trackerOf(t, client)
	w.submitN(t, "acme", documentIDs("invoice", 12), submitted(0, 1, 12)...)
	client.ZAdd(t.Context(), "priority:{acme}:pending", redis.Z{Score: 1, Member: "ended long ago"})
	client.Set(t.Context(), "priority:{corrupt}:pending", "no set", 0)
	told := calls(t, client, func() {
		w.peek(t, "acme", pending(-11, 12))
		w.peek(t, "unknown", none(0))
		_, _ = w.Peek(t.Context(), "corrupt")
	})
	for name := range told {
		name, _, _ = strings.Cut(name, "|")
		if command, ok := commands[name]; !ok || slices.Contains(command.Flags, "write") {
			t.Errorf("Peek called %q: %v", name, told)
		}
	}
}

// Programs in other languages run the scripts as printed, along with the trackers
// of the default policy.
func TestTrackerOtherLanguages(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		w := trackerOf(t, client)
		count, pendingKey := "priority:{acme}:count", "priority:{acme}:pending"
		eval := func(name string, keys []string, args ...any) []int64 {
			t.Helper()
			reply, err := client.Eval(t.Context(), script(t, name), keys, args...).Int64Slice()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return reply
		}
		both := []string{count, pendingKey}
		want := func(reply []int64, want ...int64) {
			t.Helper()
			if len(reply) < 4 || !slices.Equal(reply[:len(reply)-1], want) {
				t.Fatalf("the reply is %v, want %v and the time until the reset", reply, want)
			}
		}
		want(eval("submit.lua", both, "a"), 1, 0, 1)
		w.submit(t, "acme", "a", pending(0, 1))
		w.submit(t, "acme", "b", pending(-1, 2))
		want(eval("submit.lua", both, "b", "c", "c", "d"), 1, -1, 2, 1, -2, 3, 1, -2, 3, 2, -3, 4)
		want(eval("pending.lua", both), 2, -3, 4)
		if got := eval("done.lua", []string{pendingKey}, "a", "a", "unknown", "d"); !slices.Equal(got, []int64{2}) {
			t.Errorf("done.lua replied %v", got)
		}
		w.peek(t, "acme", pending(-3, 2))

		// What is no number of documents changes nothing.
		before := held(t, client, both...)
		for _, n := range []int{0, 101, 1000, 5000} {
			args := make([]any, n)
			for i := range args {
				args[i] = fmt.Sprint(i)
			}
			err := client.Eval(t.Context(), script(t, "submit.lua"), both, args...).Err()
			if err == nil || !strings.HasPrefix(err.Error(), "ERR the number of documents") {
				t.Errorf("submit.lua with %d documents: %v", n, err)
			}
		}
		if after := held(t, client, both...); after != before {
			t.Errorf("the keys hold %s, before %s", after, before)
		}
		if got := eval("reset.lua", both); got[0] != 2 {
			t.Errorf("reset.lua replied %v", got)
		}
		w.peek(t, "acme", none(0))
	})
}

// The script of a tracker is lua/submit.lua with its own numbers.
func TestTrackerScript(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		if got := openTracker(t, client, nil).Script("acme"); got != script(t, "submit.lua") {
			t.Error("the default policy's script is not lua/submit.lua")
		}
		policy := priority.Policy{Thresholds: []int64{5, -1, -3}, ResetInterval: time.Hour}
		tracker := newTracker(t, client, leased{rule: rule{policy: policy}, lease: 7 * time.Hour})
		keys := []string{tracker.Key("acme"), tracker.PendingKey("acme")}
		w := &tracking{Tracker: tracker, slack: handSlack}
		decided := func(count, pending int64) priority.Decision {
			return priority.Decision{
				Level: (policy.Level(count) + policy.Level(1-pending) + 1) / 2,
				Count: count, Pending: pending, ResetIn: time.Hour,
			}
		}
		for i := int64(0); i < 10; i += 2 {
			reply, err := client.Eval(t.Context(), tracker.Script("acme"), keys, fmt.Sprint(i)).Int64Slice()
			want := decided(-i, i+1)
			if err != nil || len(reply) != 4 || !slices.Equal(reply[:3], []int64{int64(want.Level), want.Count, want.Pending}) {
				t.Fatalf("the script replied %v, %v, want %+v", reply, err, want)
			}
			w.submit(t, "acme", fmt.Sprint(i+1), decided(-i-1, i+2))
		}
		wantTTL(t, client, keys[0], time.Hour)
		wantTTL(t, client, keys[1], 7*time.Hour)
	})
}

// The parts of the scripts that are the same must stay the same.
func TestScriptsShareTheirBlocks(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	first := make(map[string]string) // the file that has a block first, by block
	found := make(map[string]int)
	for _, file := range files {
		text := script(t, file.Name())
		for rest := text; ; {
			var block string
			var ok bool
			if _, block, ok = strings.Cut(rest, "-- begin "); !ok {
				break
			}
			name, lines, _ := strings.Cut(block, "\n")
			if lines, rest, ok = strings.Cut(lines, "-- end "+name+"\n"); !ok {
				t.Fatalf("%s: the block %q has no end", file.Name(), name)
			}
			found[name]++
			if before, ok := first[name]; ok && before != lines {
				t.Errorf("%s: the block %q is another one than in an earlier file:\n%s\n%s", file.Name(), name, lines, before)
			}
			first[name] = lines
		}
	}
	if want := map[string]int{"policy": 2, "levels": 4, "lease": 1}; !maps.Equal(found, want) {
		t.Errorf("the scripts have the blocks %v, want %v", found, want)
	}
}
