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

// script reads one of the module's scripts as another program would.
func script(t testing.TB, name string) string {
	t.Helper()
	text, err := os.ReadFile("lua/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBoundaryOnServer puts a key in front of the script that expires in the very
// millisecond in which the script runs, or one before. Redis does not let a key
// expire while a script runs, so nothing here depends on how fast it is.
func TestBoundaryOnServer(t *testing.T) {
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
	next := script(t, "next.lua")
	run := func(text string) []int64 {
		t.Helper()
		reply, err := client.Eval(t.Context(), text, []string{"priority:{acme}:count"}).Int64Slice()
		if err != nil {
			t.Fatal(err)
		}
		return reply
	}

	for range 20 {
		reply := run(due0 + next)
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
		count := run(due1 + next)[1]
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
			return run(fmt.Sprintf(asFunction, next))[0] == quiet.Milliseconds()
		})
	}
}

// skipBefore skips a test on servers older than a major version.
func skipBefore(t *testing.T, client *redis.Client, major int) {
	t.Helper()
	info, err := client.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	var version int
	_, after, _ := strings.Cut(info, "redis_version:")
	if _, err := fmt.Sscanf(after, "%d.", &version); err != nil {
		t.Fatalf("INFO server: %v", err)
	}
	if version < major {
		redistest.Skip(t, fmt.Sprintf("Redis %d cannot do what this test needs: install %d or later", version, major))
	}
}

// The key is what programs in other languages use too.
func TestKey(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, test := range []struct{ prefix, customer, key string }{
			{"", "acme", "priority:{acme}:count"},
			{"", "{}", "priority:{{%7D}:count"},
			{"", "100%", "priority:{100%25}:count"},
			{"", "%7D}", "priority:{%257D%7D}:count"},
			{"", "a\x00b\n", "priority:{a\x00b\n}:count"},
			{"", "\xff:count", "priority:{\xff:count}:count"},
			{"fleet-1", "acme", "fleet-1:{acme}:count"},
			{"a:%", "%", "a:%:{%25}:count"},
		} {
			store := openStore(t, client, &priority.RedisOptions{Prefix: test.prefix, Timeout: -1})
			if got := store.Key(test.customer); got != test.key {
				t.Errorf("prefix %q: Key(%q) = %q, want %q", test.prefix, test.customer, got, test.key)
			}
			if _, err := store.NextN(t.Context(), test.customer, 7); err != nil {
				t.Fatal(err)
			}
			if got := client.Get(t.Context(), test.key).Val(); got != "-6" {
				t.Errorf("prefix %q: after 7 documents of %q the key holds %q", test.prefix, test.customer, got)
			}
			wantTTL(t, client, test.key, quiet)
		}
		if n := client.DBSize(t.Context()).Val(); n != 8 {
			t.Errorf("%d keys, want 8", n)
		}
	})
}

// wantTTL fails the test unless a key has a TTL, less what the test has taken.
func wantTTL(t testing.TB, client redis.Cmdable, key string, want time.Duration) {
	t.Helper()
	got := client.PTTL(t.Context(), key).Val()
	if got > want || got < want-handSlack {
		t.Errorf("%q has the TTL %v, want %v", key, got, want)
	}
}

// The TTL is the interval, and is renewed or not as the mode says, by every kind
// of call.
func TestTTL(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		const interval = 5 * time.Hour
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			store := newStore(t, client, rule{policy: priority.Policy{ResetInterval: interval, ResetMode: mode}})
			key := store.Key("acme")
			for name, call := range countingCalls(t, store, "acme") {
				client.Del(t.Context(), key)
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				wantTTL(t, client, key, interval)

				client.PExpire(t.Context(), key, time.Hour)
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				want := interval
				if mode == priority.SinceLastReset {
					want = time.Hour
				}
				wantTTL(t, client, key, want)
			}
		}
	})
}

// countingCalls are the calls that count one customer, by name.
func countingCalls(t testing.TB, store priority.Store, customer string) map[string]func() error {
	return map[string]func() error{
		"Next":     func() error { _, err := store.Next(t.Context(), customer); return err },
		"NextN":    func() error { _, err := store.NextN(t.Context(), customer, 3); return err },
		"NextEach": func() error { _, err := store.NextEach(t.Context(), []string{customer}); return err },
	}
}

// A key without a TTL, as a hand or another program may leave it, would never be
// reset. The next document gives it one, and a look does not.
func TestKeyWithoutTTL(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
			w := &world{Store: store}
			key := store.Key("acme")
			forever := func(count string) {
				t.Helper()
				if err := client.Set(t.Context(), key, count, 0).Err(); err != nil {
					t.Fatal(err)
				}
			}

			forever("-3")
			w.peek(t, "acme", left(0, counted(-3)))
			if ttl := client.PTTL(t.Context(), key).Val(); ttl != -1 {
				t.Errorf("%v: Peek gave the key the TTL %v", mode, ttl)
			}
			w.next(t, "acme", counted(-4))
			wantTTL(t, client, key, quiet)

			forever("-10")
			w.nextN(t, "acme", 2, counted(-11), counted(-12))
			wantTTL(t, client, key, quiet)

			// A 0 without a TTL cannot be told from a key that was not there.
			forever("0")
			w.next(t, "acme", counted(0))
			wantTTL(t, client, key, quiet)

			forever("-20")
			w.nextEach(t, []string{"acme", "globex", "acme"}, counted(-21), counted(0), counted(-22))
			wantTTL(t, client, key, quiet)
		}
	})
}

// A count above 0 is none that the store writes, but it is a count.
func TestPositiveCount(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := newStore(t, client, rule{})
		w := &world{Store: store, slack: time.Second}
		client.Set(t.Context(), store.Key("acme"), "2", quiet)
		w.peek(t, "acme", priority.Decision{Level: 1, Count: 2, ResetIn: quiet})
		w.next(t, "acme", priority.Decision{Level: 1, Count: 1, ResetIn: quiet})
		w.nextN(t, "acme", 2, counted(0), counted(-1))
	})
}

// corruption is a way in which a key holds something else than a count.
type corruption struct {
	name  string
	spoil func(c redis.Pipeliner, key string)
	// onlyServer: miniredis takes what Redis does not for an integer.
	onlyServer bool
}

func spoiled() []corruption {
	var all []corruption
	value := func(value string, onlyServer bool) {
		all = append(all, corruption{fmt.Sprintf("%.25q", value), func(c redis.Pipeliner, key string) {
			c.Set(context.Background(), key, value, 0)
		}, onlyServer})
	}
	for _, v := range []string{
		"abc", "1.5", "-1.0", "", " 5", "5 ", "0x10", "1e3", "nan", "-", "--1", "5\n", "5\x00", "\x00", "\xff",
		"123456789012345678901234567890", "-123456789012345678901234567890",
		"9223372036854775808", "-9223372036854775808", "9223372036854775807", "-9223372036854775807",
		"1000000000000009", "-1000000000000000", strings.Repeat("1", 1000),
	} {
		value(v, false)
	}
	for _, v := range []string{"+5", "007", "-007", "-0", "00", strings.Repeat("0", 1000)} {
		value(v, true)
	}
	ctx := context.Background()
	return append(all,
		corruption{"list", func(c redis.Pipeliner, key string) { c.RPush(ctx, key, "-1") }, false},
		corruption{"hash", func(c redis.Pipeliner, key string) { c.HSet(ctx, key, "count", "-1") }, false},
		corruption{"set", func(c redis.Pipeliner, key string) { c.SAdd(ctx, key, "-1") }, false},
		corruption{"sorted set", func(c redis.Pipeliner, key string) { c.ZAdd(ctx, key, redis.Z{Score: -1, Member: "-1"}) }, false},
		corruption{"stream", func(c redis.Pipeliner, key string) {
			c.XAdd(ctx, &redis.XAddArgs{Stream: key, ID: "1-1", Values: []string{"count", "-1"}})
		}, false},
	)
}

func TestCorruptCount(t *testing.T) {
	t.Parallel()
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		server := miniredis.RunT(t)
		// Its DUMP knows strings only; its own dump shows all.
		testCorruptCount(t, connect(t, server.Addr()), false, func(string) string { return server.Dump() })
	})
	t.Run("server", func(t *testing.T) {
		t.Parallel()
		client := redistest.Start(t).Client()
		testCorruptCount(t, client, true, func(key string) string { return client.Dump(t.Context(), key).Val() })
	})
}

func testCorruptCount(t *testing.T, client *redis.Client, server bool, dump func(key string) string) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		for _, c := range spoiled() {
			for _, ttl := range []time.Duration{-1, time.Hour} {
				if c.onlyServer && !server {
					continue
				}
				t.Run(fmt.Sprintf("%v/%s/%v", mode, c.name, ttl), func(t *testing.T) {
					store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
					key := store.Key("acme")
					_, err := client.TxPipelined(t.Context(), func(tx redis.Pipeliner) error {
						c.spoil(tx, key)
						if ttl > 0 {
							tx.PExpire(t.Context(), key, ttl)
						}
						return nil
					})
					if err != nil {
						t.Fatal(err)
					}
					before := dump(key)
					untouched := func(call string) {
						t.Helper()
						if dump(key) != before {
							t.Errorf("%s changed the value", call)
						}
						if ttl > 0 {
							wantTTL(t, client, key, ttl)
						} else if got := client.PTTL(t.Context(), key).Val(); got != ttl {
							t.Errorf("%s gave the key the TTL %v", call, got)
						}
					}

					_, err = store.Next(t.Context(), "acme")
					wantCorrupt(t, err, key)
					untouched("Next")

					decisions, err := store.NextN(t.Context(), "acme", 3)
					wantCorrupt(t, err, key)
					if len(decisions) != 0 {
						t.Errorf("NextN: %d decisions beside the error", len(decisions))
					}
					untouched("NextN")

					_, err = store.Peek(t.Context(), "acme")
					wantCorrupt(t, err, key)
					untouched("Peek")

					decisions, err = store.NextEach(t.Context(), []string{"globex", "acme", "initech", "acme", "globex"})
					wantBatchError(t, err, 5, map[int]error{1: priority.ErrCorruptCount, 3: priority.ErrCorruptCount})
					wantCorrupt(t, err, key)
					want := []priority.Decision{counted(0), {}, counted(0), {}, counted(-1)}
					if !slices.Equal(decisions, want) {
						t.Errorf("NextEach = %+v, want %+v", decisions, want)
					}
					if held := client.Get(t.Context(), store.Key("globex")).Val(); held != "-1" {
						t.Errorf("the good customer's key holds %q, want -1", held)
					}
					client.Del(t.Context(), store.Key("globex"), store.Key("initech"))
					untouched("NextEach")

					if err := store.Reset(t.Context(), "acme"); err != nil {
						t.Fatalf("Reset: %v", err)
					}
					w := &world{Store: store}
					w.next(t, "acme", counted(0))
					w.reset(t, "acme")
				})
			}
		}
	}
}

// wantCorrupt fails the test unless an error says that a key, which it names,
// holds no count, and is of no other class.
func wantCorrupt(t testing.TB, err error, key string) {
	t.Helper()
	if !errors.Is(err, priority.ErrCorruptCount) || !strings.Contains(err.Error(), key) {
		t.Fatalf("error = %v, want one that wraps %q and names %q", err, priority.ErrCorruptCount, key)
	}
	for _, class := range []error{priority.ErrInvalid, priority.ErrNotCounted, priority.ErrOutcomeUnknown} {
		if errors.Is(err, class) {
			t.Errorf("error %v wraps %q too", err, class)
		}
	}
}

// wantBatchError fails the test unless an error is a *BatchError of n entries that
// has these errors and no others.
func wantBatchError(t testing.TB, err error, n int, want map[int]error) {
	t.Helper()
	var batch *priority.BatchError
	if !errors.As(err, &batch) || len(batch.Errs) != n {
		t.Fatalf("error = %#v, want a *BatchError of %d entries", err, n)
	}
	for i, err := range batch.Errs {
		if !errors.Is(err, want[i]) {
			t.Errorf("Errs[%d] = %v, want %v", i, err, want[i])
		}
	}
}

// onEachClient runs a test with a store on each kind of client of a real server or
// cluster, and with a plain client of each node.
func onEachClient(t *testing.T, test func(t *testing.T, store *priority.RedisStore, nodes []*redis.Client)) {
	type client struct {
		priority.RedisClient
		nodes []*redis.Client
	}
	for name, open := range map[string]func(t *testing.T) client{
		"Client": func(t *testing.T) client {
			server := redistest.Start(t)
			return client{server.Client(), []*redis.Client{server.Client()}}
		},
		"AutoPipeline": func(t *testing.T) client {
			server := redistest.Start(t)
			return client{must(server.Client().AutoPipeline())(t), []*redis.Client{server.Client()}}
		},
		"AsyncAutoPipeline": func(t *testing.T) client {
			server := redistest.Start(t)
			return client{must(server.Client().AsyncAutoPipeline())(t), []*redis.Client{server.Client()}}
		},
		"ClusterClient": func(t *testing.T) client {
			cluster := redistest.StartCluster(t, 3)
			var nodes []*redis.Client
			for _, master := range cluster.Masters {
				nodes = append(nodes, master.Client())
			}
			return client{cluster.Client(), nodes}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t)
			test(t, openStore(t, c.RedisClient, patient), c.nodes)
		})
	}
}

// A server forgets its scripts when it is restarted, when it fails over, and when
// it is told to. Nobody may notice.
func TestScriptFlushBetweenCalls(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, store *priority.RedisStore, nodes []*redis.Client) {
		w := &world{Store: store, slack: handSlack}
		flush := func() {
			for _, node := range nodes {
				if err := node.ScriptFlush(t.Context()).Err(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i := range int64(5) {
			flush()
			w.next(t, "acme", counted(-7*i))
			flush()
			w.nextN(t, "acme", 3, counted(-7*i-1), counted(-7*i-2), counted(-7*i-3))
			flush()
			w.nextEach(t, []string{"acme", "globex", "acme", "initech", "acme"},
				counted(-7*i-4), counted(-i), counted(-7*i-5), counted(-i), counted(-7*i-6))
			flush()
			w.peek(t, "acme", counted(-7*i-6))
		}
		flush()
		w.reset(t, "acme")
		w.peek(t, "acme", priority.Decision{Level: 1})
	})
}

// The same while calls are under way: in the middle of a NextEach, too, whose
// commands are then answered in part.
func TestScriptFlushDuringCalls(t *testing.T) {
	t.Parallel()
	onEachClient(t, func(t *testing.T, store *priority.RedisStore, nodes []*redis.Client) {
		const calls, entries = 20, 400
		customers := make([]string, entries)
		for i := range customers {
			customers[i] = fmt.Sprint("customer ", i%(entries/2)) // each twice
		}
		done := make(chan struct{})
		var flushing sync.WaitGroup
		for _, node := range nodes {
			flushing.Go(func() {
				for {
					select {
					case <-done:
						return
					default:
						_ = node.ScriptFlush(t.Context()).Err()
					}
				}
			})
		}
		var working sync.WaitGroup
		working.Go(func() { flushedEach(t, store, customers, calls) })
		working.Go(func() { flushedNext(t, store, "next", calls*entries/10) })
		working.Wait()
		close(done)
		flushing.Wait()

		for _, customer := range customers {
			if d, err := store.Peek(t.Context(), customer); err != nil || d.Count != 1-2*calls {
				t.Errorf("Peek(%q) = %+v, %v, want the count %d", customer, d, err, 1-2*calls)
			}
		}
	})
}

// flushedEach counts customers who are named twice, some times over.
func flushedEach(t *testing.T, store priority.Store, customers []string, calls int) {
	for call := range calls {
		decisions, err := store.NextEach(t.Context(), customers)
		if err != nil {
			t.Errorf("NextEach: %v", err)
			return
		}
		for i, d := range decisions {
			if want := -int64(2*call + i/(len(customers)/2)); d.Count != want {
				t.Errorf("call %d: %q has the count %d, want %d", call, customers[i], d.Count, want)
				return
			}
		}
	}
}

// flushedNext counts documents of one customer by turns with each call.
func flushedNext(t *testing.T, store priority.Store, customer string, n int) {
	for count := int64(0); count > -int64(n); {
		first := count
		d, err := store.Next(t.Context(), customer)
		if err != nil || d.Count != first {
			t.Errorf("Next = %+v, %v, want the count %d", d, err, first)
			return
		}
		ds, err := store.NextN(t.Context(), customer, 2)
		if err != nil || ds[0].Count != first-1 || ds[1].Count != first-2 {
			t.Errorf("NextN = %+v, %v, want the counts %d and %d", ds, err, first-1, first-2)
			return
		}
		count -= 3
	}
}

// The script cache of one node can be cold while the others' are warm.
func TestColdNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	store := openStore(t, cluster.Client(), patient)
	w := &world{Store: store, slack: handSlack}
	customers := make([]string, 90)
	for i := range customers {
		customers[i] = fmt.Sprint("customer ", i)
	}
	count := int64(0)
	each := func() {
		t.Helper()
		w.nextEach(t, customers, slices.Repeat([]priority.Decision{counted(count)}, len(customers))...)
		count--
	}
	each()
	for i, master := range cluster.Masters {
		node := master.Client()
		if n := node.DBSize(t.Context()).Val(); n < 10 {
			t.Fatalf("node %d has only %d of the %d customers", i, n, len(customers))
		}
		cool := func() {
			if err := node.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
		}
		cool()
		each() // all nodes in one call
		cool()
		for _, customer := range customers { // one node a call
			w.next(t, customer, counted(count))
		}
		count--
	}
}

// TestManyCustomers counts 100,000 customers in one call.
func TestManyCustomers(t *testing.T) {
	t.Parallel()
	const n = 100_000
	customers := make([]string, n)
	for i := range customers {
		customers[i] = fmt.Sprint("customer ", i)
	}
	want := slices.Repeat([]priority.Decision{counted(0)}, n)
	// Some of them once more, from the first to the last.
	for i := 0; i < n; i += 999 {
		customers = append(customers, customers[i])
		want = append(want, counted(-1))
	}
	for name, open := range map[string]func(t *testing.T) priority.RedisClient{
		"Client":        func(t *testing.T) priority.RedisClient { return redistest.Start(t).Client() },
		"ClusterClient": func(t *testing.T) priority.RedisClient { return redistest.StartCluster(t, 3).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			got, err := openStore(t, client, patient).NextEach(t.Context(), customers)
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(want) {
				t.Fatalf("%d decisions, want %d", len(got), len(want))
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("entry %d, %q: %+v, want %+v", i, customers[i], got[i], want[i])
				}
			}
			if keys := client.(redis.Cmdable).DBSize(t.Context()).Val(); keys != n {
				t.Errorf("%d keys, want %d", keys, n)
			}
		})
	}
}

// calls is what a server was told, by its own statistics, while a function ran.
// Commands that scripts call are in it.
func calls(t *testing.T, client *redis.Client, run func()) map[string]int {
	t.Helper()
	if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	run()
	told := redistest.Calls(t, client)
	delete(told, "config|resetstat")
	delete(told, "info")
	return told
}

// A look counts and changes nothing, by what the server itself says.
func TestPeekWritesNothing(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	commands, err := client.Command(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
		if _, err := store.NextN(t.Context(), "acme", 12); err != nil {
			t.Fatal(err)
		}
		client.Set(t.Context(), store.Key("forever"), "-3", 0)
		client.Set(t.Context(), store.Key("corrupt"), "no count", time.Hour)
		client.RPush(t.Context(), store.Key("list"), "-1")
		told := calls(t, client, func() {
			for _, customer := range []string{"acme", "forever", "corrupt", "list", "unknown"} {
				for range 3 {
					_, _ = store.Peek(t.Context(), customer) // the answers are tested elsewhere
				}
			}
		})
		if told["get"] != 15 {
			t.Errorf("%v: 15 looks were %d GETs: %v", mode, told["get"], told)
		}
		for name := range told {
			name, _, _ = strings.Cut(name, "|")
			if command, ok := commands[name]; !ok || slices.Contains(command.Flags, "write") {
				t.Errorf("%v: Peek called %q: %v", mode, name, told)
			}
		}
	}
}

// A decision is one command with one key: EVALSHA, as soon as the server knows
// the script.
func TestDecisionIsOneCommand(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	w := new(wire)
	client.AddHook(w)
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
		for range 2 { // the first of them teach the server the script
			for name, call := range countingCalls(t, store, "acme") {
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
		}
		key := store.Key("acme")
		for name, call := range countingCalls(t, store, "acme") {
			told := calls(t, client, func() {
				w.take()
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				trips := w.take()
				if len(trips) != 1 || len(trips[0]) != 1 {
					t.Fatalf("%v, %s: sent %v, want one command", mode, name, trips)
				}
				args := trips[0][0].Args()
				if args[0] != "evalsha" || fmt.Sprint(args[2]) != "1" || args[3] != key {
					t.Errorf("%v, %s: sent %v, want EVALSHA with the key %q", mode, name, args, key)
				}
			})
			want := map[string]int{"evalsha": 1, "decr": 1, "pexpire": 1}
			if name == "NextN" {
				want = map[string]int{"evalsha": 1, "decrby": 1, "pexpire": 1}
			}
			if mode == priority.SinceLastReset {
				delete(want, "pexpire")
				want["pttl"] = 1
			}
			if !maps.Equal(told, want) {
				t.Errorf("%v, %s: the server did %v, want %v", mode, name, told, want)
			}
		}
	}
}

// However many customers, a NextEach is one round trip to each node.
func TestNextEachIsOneRoundTrip(t *testing.T) {
	t.Parallel()
	customers := make([]string, 1000)
	for i := range customers {
		customers[i] = fmt.Sprint("customer ", i%800)
	}
	check := func(t *testing.T, client priority.RedisClient, w *wire, nodes int) {
		store := openStore(t, client, patient)
		for range 2 { // the first of them teaches the servers the script
			w.take()
			if _, err := store.NextEach(t.Context(), customers); err != nil {
				t.Fatal(err)
			}
		}
		if trips := w.take(); len(trips) != nodes {
			t.Errorf("1000 entries took %d round trips to %d nodes", len(trips), nodes)
		}
	}
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		client, w := redistest.Start(t).Client(), new(wire)
		client.AddHook(w)
		check(t, client, w, 1)
	})
	t.Run("ClusterClient", func(t *testing.T) {
		t.Parallel()
		client, w := redistest.StartCluster(t, 3).Client(), new(wire)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(w) })
		check(t, client, w, 3)
	})
}

// A call that is wrong, or counts nothing, does not even connect.
func TestNothingIsSent(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	store := openStore(t, connect(t, server.Addr()), nil)
	for i, customers := range [][]string{nil, {}} {
		if got, err := store.NextEach(t.Context(), customers); got != nil || err != nil {
			t.Errorf("NextEach of none, %d: %v, %v", i, got, err)
		}
	}
	if got, err := store.NextN(t.Context(), "acme", 0); len(got) != 0 || err != nil {
		t.Errorf("NextN of none: %v, %v", got, err)
	}
	for _, n := range []int{-1, priority.MaxDocuments + 1} {
		_, err := store.NextN(t.Context(), "acme", n)
		wantInvalid(t, err, priority.ErrInvalidCount, fmt.Sprint(n))
	}
	for _, bad := range invalidCustomers {
		for name, call := range countingCalls(t, store, bad.customer) {
			if err := call(); !errors.Is(err, priority.ErrInvalidCustomer) {
				t.Errorf("%s of %d bytes: %v", name, len(bad.customer), err)
			}
		}
		_, err := store.NextEach(t.Context(), []string{"acme", bad.customer, "globex"})
		wantInvalid(t, err, priority.ErrInvalidCustomer, bad.shown)
		_, err = store.Peek(t.Context(), bad.customer)
		wantInvalid(t, err, priority.ErrInvalidCustomer, bad.shown)
		wantInvalid(t, store.Reset(t.Context(), bad.customer), priority.ErrInvalidCustomer, bad.shown)
	}
	store.Key("acme")
	if n := server.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections and %d commands", n, server.CommandCount())
	}
}

// A store calls these commands, scripts included, and no others: none that walks
// the keys, and no more than an access list has to allow.
func TestCommands(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	allowed := []string{
		"evalsha", "eval", "script|load",
		"get", "decr", "decrby", "incr", "pexpire", "pttl", "unlink",
		"hello", "client|setinfo", "client|setname", "client|maint_notifications", // go-redis, to connect
	}
	told := calls(t, client, func() {
		// Every call there is, with a cold script cache first.
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
			w := &world{Store: store, slack: handSlack}
			w.peek(t, "acme", priority.Decision{Level: 1})
			w.next(t, "acme", counted(0))
			w.nextN(t, "acme", 2, counted(-1), counted(-2))
			w.nextEach(t, []string{"acme", "globex"}, counted(-3), counted(0))
			w.peek(t, "acme", counted(-3))
			w.reset(t, "acme")
			w.next(t, "acme", counted(0))
		}
	})
	for name := range told {
		if !slices.Contains(allowed, name) {
			t.Errorf("the server was told %q: %v", name, told)
		}
	}
}

// Programs in other languages run the scripts as printed, and count along with
// the stores of the default policy.
func TestOtherLanguages(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		store := openStore(t, client, patient)
		w := &world{Store: store, slack: handSlack}
		const key = "priority:{acme}:count"
		eval := func(name string, want priority.Decision, args ...any) {
			t.Helper()
			reply, err := client.Eval(t.Context(), script(t, name), []string{key}, args...).Int64Slice()
			if err != nil || len(reply) < 2 {
				t.Fatalf("%s replied %v, %v", name, reply, err)
			}
			got := priority.Decision{Level: priority.Level(reply[0]), Count: reply[1], ResetIn: quiet}
			if len(reply) > 2 {
				got.ResetIn = time.Duration(reply[2]) * time.Millisecond
			}
			if !w.agree(got, want) {
				t.Fatalf("%s decided %+v, want %+v", name, got, want)
			}
		}
		unknown := priority.Decision{Level: 1}

		eval("peek.lua", unknown)
		for count := int64(0); count > -35; count-- {
			eval("next.lua", counted(count))
			eval("peek.lua", counted(count))
		}
		w.next(t, "acme", counted(-35))
		w.reset(t, "acme")
		for count := int64(0); count > -42; count -= 7 {
			eval("next.lua", counted(count))
			w.next(t, "acme", counted(count-1))
			eval("next.lua", counted(count-4), 3)
			w.peek(t, "acme", counted(count-4))
			w.nextN(t, "acme", 2, counted(count-5), counted(count-6))
			eval("peek.lua", counted(count-6))
		}
		for want := range 2 {
			got, err := client.Eval(t.Context(), script(t, "reset.lua"), []string{key}).Int64Slice()
			if err != nil || !slices.Equal(got, []int64{1 - int64(want)}) {
				t.Errorf("reset.lua replied %v, %v", got, err)
			}
			w.peek(t, "acme", unknown)
		}
		eval("next.lua", counted(-4), "5")
		w.next(t, "acme", counted(-5))
		eval("next.lua", counted(-1_000_005), 1_000_000)

		// What is no number of documents counts nothing.
		for _, n := range []any{"0", "-1", "1000001", "1.5", "x", "", " 1", "1e3", "0x10", "99999999999999999999"} {
			err := client.Eval(t.Context(), script(t, "next.lua"), []string{key}, n).Err()
			if err == nil || !strings.HasPrefix(err.Error(), "ERR ") {
				t.Errorf("next.lua with %q documents: %v", n, err)
			}
		}
		eval("peek.lua", counted(-1_000_005))

		// What is no count has a code of its own, and stays.
		client.Set(t.Context(), key, "abc", time.Hour)
		for _, name := range []string{"next.lua", "peek.lua"} {
			err := client.Eval(t.Context(), script(t, name), []string{key}).Err()
			if err == nil || !strings.HasPrefix(err.Error(), "CORRUPTCOUNT ") {
				t.Errorf("%s on a corrupt count: %v", name, err)
			}
		}
		if got := client.Get(t.Context(), key).Val(); got != "abc" {
			t.Errorf("the corrupt count became %q", got)
		}
	})
}

// TestScript runs the script of a store's own policies, as another program would
// get it from there.
func TestScript(t *testing.T) {
	t.Parallel()
	onEachServer(t, func(t *testing.T, client *redis.Client) {
		r := rule{
			policy: priority.Policy{Thresholds: []int64{5, -1, -3}, ResetInterval: time.Hour},
			tiers: map[string]priority.Policy{
				"gold": {Thresholds: []int64{}, ResetInterval: 3 * time.Hour, ResetMode: priority.SinceLastReset},
			},
			tierOf: func(customer string) string { return customer },
		}
		store := newStore(t, client, r)
		w := &world{Store: store, slack: handSlack}
		for _, customer := range []string{"acme", "gold"} {
			policy := r.policyOf(customer)
			decided := func(count int64) priority.Decision {
				return priority.Decision{Level: policy.Level(count), Count: count, ResetIn: policy.ResetInterval}
			}
			for count := int64(0); count > -10; count -= 2 {
				reply, err := client.Eval(t.Context(), store.Script(customer), []string{store.Key(customer)}).Int64Slice()
				want := []int64{int64(policy.Level(count)), count}
				if err != nil || len(reply) < 2 || !slices.Equal(reply[:2], want) {
					t.Fatalf("the script of %q replied %v, %v, want %v", customer, reply, err, want)
				}
				w.next(t, customer, decided(count-1))
			}
			wantTTL(t, client, store.Key(customer), policy.ResetInterval)
		}
		if got := openStore(t, client, nil).Script("acme"); got != script(t, "next.lua") {
			t.Error("the default policy's script is not lua/next.lua")
		}
	})
}
