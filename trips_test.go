package priority_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// What goes to Redis and how often.

// A call of one customer is one command on the customer's keys, EVALSHA as soon as
// the server knows the script, and within it no more than is needed.
func TestADecisionIsOneCommand(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	sent := new(wire)
	client.AddHook(sent)
	for _, mode := range bothModes {
		store := newStore(t, client, rule{policy: priority.Policy{ResetMode: mode}})
		keys, n := []string{store.Key("acme"), store.PendingKey("acme"), store.UsageKey("acme")}, 0
		of := keys[1:] // by load
		ruled := map[string]int{"pexpire": 1}
		submits := map[string]int{"get": 1, "pttl": 1, "time": 1, "zcard": 1, "zcount": 1, "zadd": 1, "pexpire": 2}
		if mode == priority.SinceLastReset {
			ruled = map[string]int{"pttl": 1}
		}
		// with is a copy with one command more.
		with := func(told map[string]int, command string, times int) map[string]int {
			told = maps.Clone(told)
			told[command] = times
			return told
		}
		calls := everyCall(t, store, "acme", "again")
		calls["Submit of a new one"] = func() error { n++; _, err := store.Submit(t.Context(), "acme", fmt.Sprint(n), 0); return err }
		calls["SubmitN of new ones"] = func() error {
			n += 3
			_, err := store.SubmitN(t.Context(), "acme", []string{fmt.Sprint(n - 2), fmt.Sprint(n - 1), fmt.Sprint(n)}, nil)
			return err
		}
		again := map[string]int{"get": 1, "pttl": 1, "time": 1, "zcard": 1, "zcount": 1, "zadd": 2, "zscore": 1, "pexpire": 1}
		done := map[string]int{"zscore": 1, "get": 1, "zrem": 1, "time": 1} // it teaches nothing new
		for _, test := range []struct {
			name string
			keys []string
			args []any          // those that are the same each time
			told map[string]int // within the script
		}{
			{"Next", keys[:1], nil, with(ruled, "decr", 1)},
			{"NextN", keys[:1], []any{int64(3)}, with(ruled, "decrby", 1)},
			{"NextEach", keys[:1], nil, with(ruled, "decr", 1)},
			{"Submit", of, []any{"again", int64(0)}, again},
			{"SubmitN", of, []any{"again", int64(0)}, again},
			{"Submit of a new one", of, nil, submits},
			{"SubmitN of new ones", of, nil, with(submits, "zmscore", 1)},
			{"Peek", keys, nil, map[string]int{"get": 2, "pttl": 2, "time": 1, "zcard": 1, "zcount": 1, "zrange": 2}},
			{"Done", of, []any{int64(0), "again"}, done},
			{"DoneN", of, []any{int64(0), "again"}, done},
			{"Reset", keys, nil, map[string]int{"unlink": 1}},
		} {
			// The first calls teach the server the script, and make what is there.
			must(store.Next(t.Context(), "acme"))(t)
			must(store.Submit(t.Context(), "acme", "again", 0))(t)
			must(store.Submit(t.Context(), "acme", "second", 0))(t)
			_ = calls[test.name]()
			must(store.Submit(t.Context(), "acme", "again", 0))(t)
			told := serverCalls(t, client, func() {
				sent.take()
				if err := calls[test.name](); err != nil {
					t.Fatalf("%s: %v", test.name, err)
				}
			})
			trips := sent.take()
			if len(trips) != 1 || len(trips[0]) != 1 {
				t.Fatalf("%v, %s: sent %v, want one command", mode, test.name, trips)
			}
			args := trips[0][0].Args()
			want := []any{"evalsha", args[1], len(test.keys)}
			for _, key := range test.keys {
				want = append(want, key)
			}
			if want = append(want, test.args...); len(args) < len(want) || !slices.Equal(args[:len(want)], want) {
				t.Errorf("%v, %s: sent %v, want %v", mode, test.name, args, want)
			}
			if want := with(test.told, "evalsha", 1); !maps.Equal(told, want) {
				t.Errorf("%v, %s: the server did %v, want %v", mode, test.name, told, want)
			}
		}
	}
}

// However many customers or documents, a call is one round trip to each node.
func TestABatchIsOneRoundTripToEachNode(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, client priority.RedisClient, sent *wire, nodes int) {
		store := openStore(t, client, patient)
		ids, names := documentIDs("invoice", 2345), customers(1000)
		for _, test := range []struct {
			name  string
			nodes int
			call  func() error
		}{
			{"NextEach", nodes, func() error { _, err := store.NextEach(t.Context(), append(names, names[:200]...)); return err }},
			{"SubmitN", 1, func() error { _, err := store.SubmitN(t.Context(), "acme", ids, nil); return err }},
			{"DoneN", 1, func() error { return store.DoneN(t.Context(), "acme", ids, 0) }},
		} {
			for range 2 { // the first of them teaches the servers the script
				sent.take()
				if err := test.call(); err != nil {
					t.Fatal(err)
				}
			}
			if trips := sent.take(); len(trips) != test.nodes {
				t.Errorf("%s took %d round trips, want %d", test.name, len(trips), test.nodes)
			}
		}
	}
	t.Run("Client", func(t *testing.T) {
		t.Parallel()
		client, sent := redistest.Start(t).Client(), new(wire)
		client.AddHook(sent)
		check(t, client, sent, 1)
	})
	t.Run("ClusterClient", func(t *testing.T) {
		t.Parallel()
		client, sent := redistest.StartCluster(t, 3).Client(), new(wire)
		client.OnNewNode(func(node *redis.Client) { node.AddHook(sent) })
		check(t, client, sent, 3)
	})
}

// The documents of a SubmitN have an order, so its commands carry the script's text:
// none is refused because the server does not know it.
func TestSubmitNNeedsNoKnownScript(t *testing.T) {
	t.Parallel()
	client, sent := redistest.Start(t).Client(), new(wire)
	client.AddHook(sent)
	ids := documentIDs("invoice", 2345)
	storeOf(t, client).submitN(t, "acme", ids, flood(len(ids))...)
	if trips := sent.take(); len(trips) != 1 || len(trips[0]) != 47 {
		t.Errorf("SubmitN took %d round trips, want one of 47 commands", len(trips))
	}
}

// No node of a cluster has to be done before another one begins.
func TestNodesAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	client := redistest.StartCluster(t, 3).Client()
	store := openStore(t, client, &priority.RedisOptions{Timeout: 20 * time.Second})
	must(store.Next(t.Context(), "acme"))(t) // the client knows the nodes from now
	m := &meeting{all: make(chan struct{})}
	m.missing.Store(3)
	if err := client.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error { node.AddHook(m); return nil }); err != nil {
		t.Fatal(err)
	}
	must(store.NextEach(t.Context(), customers(1000)))(t)
}

// meeting is a hook that lets no pipeline of scripts through until some nodes have
// one.
type meeting struct {
	wire
	missing atomic.Int32
	all     chan struct{} // closed when all are there
}

func (m *meeting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() != "evalsha" { // a connection introduces itself
			return next(ctx, cmds)
		}
		if m.missing.Add(-1) == 0 {
			close(m.all)
		}
		select {
		case <-m.all:
			return next(ctx, cmds)
		case <-time.After(10 * time.Second):
			return errors.New("the other nodes were not asked meanwhile")
		}
	}
}

// A call that is wrong, or is about nothing, does not even connect.
func TestNothingIsSentForNothing(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	store := openStore(t, connect(t, server.Addr()), nil)
	for name, call := range everyCall(t, store, "", "a") {
		if err := call(); !errors.Is(err, priority.ErrInvalidCustomer) {
			t.Errorf("%s of no customer: %v", name, err)
		}
	}
	for name, call := range documentCalls(t, store, "acme", "") {
		if err := call(); !errors.Is(err, priority.ErrInvalidDocument) {
			t.Errorf("%s of no document: %v", name, err)
		}
	}
	_, nextN := store.NextN(t.Context(), "acme", 0)
	_, nextEach := store.NextEach(t.Context(), nil)
	_, submitN := store.SubmitN(t.Context(), "acme", nil, nil)
	if err := errors.Join(nextN, nextEach, submitN, store.DoneN(t.Context(), "acme", nil, 0)); err != nil {
		t.Error(err)
	}
	if n := server.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections and %d commands", n, server.CommandCount())
	}
}

// flushed runs a test with a store on each kind of client, of servers whose scripts it
// can flush.
func flushed(t *testing.T, test func(t *testing.T, w *world, flush func())) {
	for name, start := range fleets {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fleet := start(t)
			test(t, storeOf(t, fleet.connect()), func() {
				for _, node := range fleet.nodes {
					node.ScriptFlush(context.Background())
				}
			})
		})
	}
}

// A server forgets its scripts when it is restarted, when it fails over, and when
// it is told to. Nobody may notice.
func TestAForgottenScriptIsSentAgain(t *testing.T) {
	t.Parallel()
	flushed(t, func(t *testing.T, w *world, flush func()) {
		ids := documentIDs("invoice", 1000)
		for i := range int64(4) {
			flush()
			w.next(t, "acme", counted(-9*i))
			flush()
			w.nextN(t, "acme", 3, countdown(-9*i-1, 3)...)
			flush()
			w.nextEach(t, []string{"acme", "globex", "acme", "initech", "acme"},
				counted(-9*i-4), counted(-i), counted(-9*i-5), counted(-i), counted(-9*i-6))
			flush()
			w.nextN(t, "acme", 2, countdown(-9*i-7, 2)...)
			flush()
			w.counts(t, "acme", counted(-9*i-8))

			at := 250 * i
			want := flood(len(ids))[at : at+250]
			flush()
			w.submit(t, "documents", ids[at], want[0])
			flush()
			w.submitN(t, "documents", ids[at:at+250], want...)
		}
		flush()
		w.done(t, "documents", ids[0])
		flush()
		w.doneN(t, "documents", ids[:999]...)
		w.pends(t, "documents", 1)
		flush()
		w.reset(t, "documents")
		w.peek(t, "documents", unknown)
	})
}

// The same while calls are under way: in the middle of a batch, too, whose commands
// are then answered in part. All keep their order.
func TestAScriptForgottenDuringABatchChangesNoOrder(t *testing.T) {
	t.Parallel()
	flushed(t, func(t *testing.T, w *world, flush func()) {
		const calls = 8
		names, ids := customers(200), documentIDs("invoice", 2000)
		done := make(chan struct{})
		var flushing, working sync.WaitGroup
		flushing.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(time.Millisecond): // the calls need the server, too
					flush()
				}
			}
		})
		same := func(call string, got []priority.Decision, err error, want []priority.Decision) {
			if err != nil || !w.agreeAll(got, want) {
				t.Errorf("%s: %v, or another order", call, err)
			}
		}
		working.Go(func() {
			for call := range int64(calls) {
				got, err := w.NextEach(t.Context(), append(names, names...)) // each of them twice
				same("NextEach", got, err, append(slices.Repeat([]priority.Decision{counted(-2 * call)}, 200),
					slices.Repeat([]priority.Decision{counted(-2*call - 1)}, 200)...))
			}
		})
		working.Go(func() {
			for i := range int64(200) {
				d, err := w.Next(t.Context(), "acme")
				same("Next", []priority.Decision{d}, err, countdown(-3*i, 1))
				ds, err := w.NextN(t.Context(), "acme", 2)
				same("NextN", ds, err, countdown(-3*i-1, 2))
			}
		})
		working.Go(func() {
			for i := range calls {
				ds, err := w.SubmitN(t.Context(), fmt.Sprint("sender ", i), ids, nil)
				same("SubmitN", ds, err, flood(len(ids)))
			}
		})
		working.Wait()
		close(done)
		flushing.Wait()
	})
}

// TestManyCustomersInOneCall counts 100,000 of them, some twice.
func TestManyCustomersInOneCall(t *testing.T) {
	t.Parallel()
	const n = 100_000
	names := customers(n)
	want := slices.Repeat([]priority.Decision{counted(0)}, n)
	for i := 0; i < n; i += 999 { // from the first to the last
		names = append(names, names[i])
		want = append(want, counted(-1))
	}
	for name, open := range map[string]func(t *testing.T) redis.UniversalClient{
		"Client":        func(t *testing.T) redis.UniversalClient { return redistest.Start(t).Client() },
		"ClusterClient": func(t *testing.T) redis.UniversalClient { return redistest.StartCluster(t, 3).Client() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := open(t)
			storeOf(t, client).nextEach(t, names, want...)
			if keys := client.DBSize(t.Context()).Val(); keys != n {
				t.Errorf("%d keys, want %d", keys, n)
			}
		})
	}
}

// A call of many documents is cut into script calls that are short each, however
// many are pending.
func TestABatchIsCutIntoShortScriptCalls(t *testing.T) {
	t.Parallel()
	client := connectWith(t, &redis.Options{Addr: redistest.Start(t).Addr, ReadTimeout: time.Minute})
	w := storeOf(t, client)
	ids := documentIDs("invoice", manyPending)
	told := serverCalls(t, client, func() { w.submitN(t, "acme", ids, flood(manyPending)...) })
	if told["eval"] != manyPending/50 || told["zadd"] != manyPending/50 {
		t.Errorf("SubmitN of %d made %v", manyPending, told)
	}
	for i, d := range must(w.SubmitN(t.Context(), "acme", ids[:1000], nil))(t) {
		if d.Pending != manyPending {
			t.Fatalf("the same again: decision %d is %+v", i, d)
		}
	}

	// One more costs no other commands than where few are pending.
	var few map[string]int
	w.submitN(t, "few", ids[:200], flood(200)...)
	for i, call := range []func(customer string) error{
		func(customer string) error { _, err := w.Submit(t.Context(), customer, "another", 0); return err },
		func(customer string) error { _, err := w.Submit(t.Context(), customer, ids[7], 0); return err },
		func(customer string) error { return w.Done(t.Context(), customer, "another", 0) },
		func(customer string) error { _, err := w.Peek(t.Context(), customer); return err },
	} {
		for _, customer := range []string{"warm", "few", "acme"} {
			told := serverCalls(t, client, func() {
				if err := call(customer); err != nil {
					t.Fatal(err)
				}
			})
			if delete(told, "eval"); customer == "few" {
				few = told
			} else if customer == "acme" && !maps.Equal(told, few) {
				t.Errorf("call %d with %d pending made %v, with few %v", i, manyPending, told, few)
			}
		}
	}

	w.done(t, "acme", ids[manyPending-1])
	w.submit(t, "acme", "another", pending(manyPending))
	told = serverCalls(t, client, func() { w.doneN(t, "acme", ids...) })
	if told["zrem"] < manyPending/250 {
		t.Errorf("DoneN of %d made %v", manyPending, told)
	}
	w.pends(t, "acme", 1)
}
