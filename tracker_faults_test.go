package priority_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	miniserver "github.com/alicebob/miniredis/v2/server"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// A lost reply must not make anything count twice; and a Submit that is made
// again, as its documentation allows, counts nothing.
func TestTrackerLostReply(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	for faultName, fault := range map[string]redistest.Fault{
		"cut": redistest.Cut, "truncate": redistest.Truncate, "swallow": redistest.Swallow, "delay": redistest.Delay,
	} {
		for kind, newClient := range clientKinds {
			for operation, test := range map[string]struct {
				call    func(*priority.RedisTracker) error
				count   string // afterwards, where it was 0 before
				pending int64  // where it was 1 before
			}{
				"Submit": {func(r *priority.RedisTracker) error { _, err := r.Submit(ctx, "acme", "b"); return err }, "-1", 2},
				"SubmitN": {func(r *priority.RedisTracker) error {
					_, err := r.SubmitN(ctx, "acme", documentIDs("invoice", 120))
					return err
				}, "-120", 121},
				"Done":  {func(r *priority.RedisTracker) error { return r.Done(ctx, "acme", "a") }, "0", 0},
				"DoneN": {func(r *priority.RedisTracker) error { return r.DoneN(ctx, "acme", []string{"a", "b"}) }, "0", 0},
				"Reset": {func(r *priority.RedisTracker) error { return r.Reset(ctx, "acme") }, "", 0},
			} {
				name := faultName + "/" + kind + "/" + operation
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					proxy := redistest.StartProxy(t, server.Addr)
					client := newClient(t, proxy.Addr)
					patient := openTracker(t, client, &priority.RedisOptions{Prefix: name, Timeout: time.Minute})
					impatient := openTracker(t, client, &priority.RedisOptions{Prefix: name, Timeout: 100 * time.Millisecond})
					// First calls open the connections and load the scripts.
					_, err1 := patient.Submit(ctx, "acme", "a")
					err2 := patient.DoneN(ctx, "acme", documentIDs("unknown", 300))
					if err := errors.Join(err1, err2, patient.Done(ctx, "acme", "unknown"), patient.Reset(ctx, "c")); err != nil {
						t.Fatal(err)
					}
					holds := func() bool {
						return direct.Get(ctx, patient.Key("acme")).Val() == test.count &&
							direct.ZCard(ctx, patient.PendingKey("acme")).Val() == test.pending
					}

					proxy.Set(fault)
					wantClass(t, test.call(impatient), priority.ErrOutcomeUnknown)

					// The tracker may have given up before the server came to it.
					redistest.Await(t, fmt.Sprintf("the server holds %q and %d", test.count, test.pending), holds)
					proxy.Set(redistest.None)
					redistest.Await(t, "the client works again", func() bool {
						_, err := patient.Peek(ctx, "c")
						return err == nil
					})
					if !holds() {
						t.Errorf("the server holds %q and %d in the end; want %q and %d", direct.Get(ctx, patient.Key("acme")).Val(),
							direct.ZCard(ctx, patient.PendingKey("acme")).Val(), test.count, test.pending)
					}
					if err := test.call(patient); err != nil {
						t.Errorf("once more: %v", err)
					}
					if !holds() {
						t.Errorf("after the same call once more the server holds %q and %d; want %q and %d", direct.Get(ctx, patient.Key("acme")).Val(),
							direct.ZCard(ctx, patient.PendingKey("acme")).Val(), test.count, test.pending)
					}
				})
			}
		}
	}
}

// Where a command surely did not reach Redis, the error says so.
func TestTrackerNothingSentIsNotCounted(t *testing.T) {
	ctx := context.Background()
	addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	for _, kind := range []string{"Client", "Ring"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			tracker := openTracker(t, clientKinds[kind](t, addr), nil)
			calls := trackerCalls(t, tracker, "acme", "a")
			calls["Peek"] = func() error { _, err := tracker.Peek(ctx, "acme"); return err }
			calls["Reset"] = func() error { return tracker.Reset(ctx, "acme") }
			for name, call := range calls {
				err := call()
				wantClass(t, err, priority.ErrNotCounted)
				var batch *priority.BatchError
				if isBatch := name == "SubmitN" || name == "DoneN"; errors.As(err, &batch) != isBatch || isBatch && len(batch.Errs) != 1 {
					t.Errorf("%s: %#v", name, err)
				}
			}
		})
	}
}

// A context that has ended before the call ends it the same way in memory and in
// Redis, and nothing is changed.
func TestTrackerCanceledContext(t *testing.T) {
	for name, tracker := range map[string]priority.Tracker{
		"MemoryTracker": new(priority.MemoryTracker),
		"RedisTracker":  openTracker(t, redistest.Start(t).Client(), patient),
	} {
		t.Run(name, func(t *testing.T) {
			w := &tracking{Tracker: tracker, slack: handSlack}
			w.submit(t, "acme", "a", pending(0, 1))
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, submit := tracker.Submit(ctx, "acme", "b")
			decisions, submitN := tracker.SubmitN(ctx, "acme", []string{"b", "c"})
			_, peek := tracker.Peek(ctx, "acme")
			doneN := tracker.DoneN(ctx, "acme", []string{"a", "b"})
			for _, err := range []error{submit, submitN, peek, doneN, tracker.Done(ctx, "acme", "a"), tracker.Reset(ctx, "acme")} {
				wantClass(t, err, priority.ErrNotCounted)
				if !errors.Is(err, context.Canceled) {
					t.Errorf("got %v; want context.Canceled in it", err)
				}
			}
			for _, err := range []error{submitN, doneN} {
				wantBatchError(t, err, 2, map[int]error{0: priority.ErrNotCounted, 1: priority.ErrNotCounted})
			}
			if len(decisions) != 2 {
				t.Errorf("SubmitN: %d decisions beside the error, want one a document", len(decisions))
			}
			w.peek(t, "acme", pending(0, 1))
		})
	}
}

// While Redis hangs, calls end by the timeout; what was sent is done when it is
// back, once.
func TestTrackerHangingServer(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	tracker := openTracker(t, server.Client(), &priority.RedisOptions{Timeout: 50 * time.Millisecond})
	redistest.Await(t, "the server answers", func() bool {
		_, err := tracker.Submit(ctx, "acme", "warm")
		return err == nil
	})
	server.Signal(syscall.SIGSTOP)
	const workers, each = 8, 10
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for _, id := range documentIDs("invoice", each) { // all the same ones
				_, err := tracker.Submit(ctx, "acme", id)
				if !errors.Is(err, priority.ErrOutcomeUnknown) && !errors.Is(err, priority.ErrNotCounted) {
					t.Errorf("a stopped server: %v", err)
				}
			}
		})
	}
	wg.Wait()
	server.Signal(syscall.SIGCONT)
	w := &tracking{Tracker: openTracker(t, server.Client(), patient), slack: handSlack}
	for _, id := range documentIDs("invoice", each) {
		if _, err := w.Submit(ctx, "acme", id); err != nil {
			t.Error(err)
		}
	}
	w.peek(t, "acme", pending(-each, each+1))
}

// What a server refuses changes nothing, and can be read from the error.
func TestTrackerRefusals(t *testing.T) {
	ctx := context.Background()
	t.Run("read-only replica", func(t *testing.T) {
		master := redistest.Start(t)
		replica := redistest.StartReplica(t, master)
		w := trackerOf(t, master.Client())
		w.submit(t, "acme", "a", pending(0, 1))
		onReplica := openTracker(t, replica.Client(), nil)
		redistest.Await(t, "the replica has it", func() bool {
			decision, err := onReplica.Peek(ctx, "acme")
			return err == nil && decision.Pending == 1
		})
		for name, call := range trackerCalls(t, onReplica, "acme", "a") {
			err := call()
			wantClass(t, err, priority.ErrNotCounted)
			if !redis.IsReadOnlyError(err) && name != "SubmitN" && name != "DoneN" {
				t.Errorf("%s: got %v; want READONLY in it", name, err)
			}
		}
		_, err := onReplica.Submit(ctx, "acme", "new")
		wantClass(t, err, priority.ErrNotCounted)
		wantClass(t, onReplica.Reset(ctx, "acme"), priority.ErrNotCounted)
		w.peek(t, "acme", pending(0, 1))
	})
	t.Run("memory full", func(t *testing.T) {
		direct := redistest.Start(t, "--maxmemory-policy", "noeviction").Client()
		w := trackerOf(t, direct)
		w.submitN(t, "acme", []string{"a", "b", "c"}, submitted(0, 1, 3)...)
		direct.ConfigSet(ctx, "maxmemory", "1")
		for _, id := range []string{"a", "new"} { // pending, and new
			_, err := w.Submit(ctx, "acme", id)
			wantClass(t, err, priority.ErrNotCounted)
			if !redis.IsOOMError(err) {
				t.Errorf("got %v; want OOM in it", err)
			}
			_, err = w.SubmitN(ctx, "acme", []string{id, "b"})
			wantClass(t, err, priority.ErrNotCounted)
		}
		// What frees memory works.
		w.done(t, "acme", "a")
		w.doneN(t, "acme", "b")
		direct.ConfigSet(ctx, "maxmemory", "0")
		w.submit(t, "acme", "new", pending(-3, 2))
	})
}

// Connections that are killed again and again, and a server that forgets its
// scripts, under load: each document is counted once, however often it had to be
// submitted until an answer came.
func TestTrackerClientKillUnderLoad(t *testing.T) {
	ctx := context.Background()
	server := redistest.Start(t)
	direct := server.Client()
	const workers, each = 4, 400
	var working sync.WaitGroup
	for worker := range workers {
		client := server.Client()
		var any priority.RedisClient = client
		if worker%2 == 1 {
			any = must(client.AutoPipeline())(t)
		}
		tracker := openTracker(t, any, nil)
		working.Go(func() {
			for i, id := range documentIDs(fmt.Sprint("worker ", worker), each) {
				for {
					_, err := tracker.Submit(ctx, "acme", id)
					if err == nil {
						break
					}
					if !errors.Is(err, priority.ErrNotCounted) && !errors.Is(err, priority.ErrOutcomeUnknown) {
						t.Errorf("Submit: %v", err)
						return
					}
				}
				for i%2 == 0 && tracker.Done(ctx, "acme", id) != nil {
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() {
		working.Wait()
		close(ended)
	}()
	for running := true; running; {
		select {
		case <-ended:
			running = false
		default:
			server.KillClients()
			direct.ScriptFlush(ctx)
		}
	}
	w := trackerOf(t, server.Client())
	redistest.Await(t, "the server answers", func() bool { _, err := w.Peek(ctx, "acme"); return err == nil })
	w.peek(t, "acme", pending(1-workers*each, workers*each/2))
}

// A failover of a cluster: what was answered is there afterwards.
func TestTrackerClusterFailover(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	tracker := openTracker(t, client, &priority.RedisOptions{Timeout: 30 * time.Second})
	w := &tracking{Tracker: tracker, slack: handSlack}
	owner, err := client.MasterForKey(ctx, tracker.Key("acme"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(cluster.Masters, func(node *redistest.Server) bool { return node.Addr == owner.Options().Addr })
	replica := cluster.AddReplica(cluster.Masters[at])
	w.submitN(t, "acme", documentIDs("invoice", 120), submitted(0, 1, 120)...)
	if err := replica.Client().ClusterFailover(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	w.submitN(t, "acme", documentIDs("invoice", 130), append(submittedAgain(pending(-119, 120), 120), submitted(-120, 121, 10)...)...)
	w.done(t, "acme", "invoice 0")
	redistest.Await(t, "the replica is the master", func() bool {
		return replica.Client().Do(ctx, "role").Val().([]any)[0] == "master"
	})
	w.submit(t, "acme", "another", pending(-130, 130))
	w.peek(t, "acme", pending(-130, 130))
}

// A server that answers with something else is reported, and not believed.
func TestTrackerOddReply(t *testing.T) {
	for _, reply := range []any{[]any{1, 0}, []any{}, []any{1, 0, 1, 0}} {
		server := miniredis.RunT(t)
		server.Server().SetPreHook(func(peer *miniserver.Peer, command string, _ ...string) bool {
			if !strings.HasPrefix(command, "EVAL") {
				return false
			}
			integers := reply.([]any)
			peer.WriteLen(len(integers))
			for _, n := range integers {
				peer.WriteInt(n.(int))
			}
			return true
		})
		tracker := openTracker(t, connect(t, server.Addr()), patient)
		_, err := tracker.SubmitN(t.Context(), "acme", []string{"a", "b"})
		wantClass(t, err, priority.ErrOutcomeUnknown)
	}
}
