package priority_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// What goes to Redis, how often, and with which rights.

// However many customers or documents, a call is one round trip to each node, and one command if
// it is about one.
func TestTrips(t *testing.T) {
	t.Parallel()
	check := func(t *testing.T, client priority.RedisClient, sent *wire, nodes int) {
		store, ctx := newStore(t, client), t.Context()
		ids, names := numbered("invoice", 2345), numbered("customer", 1000)
		calls := named.Calls(t.Context(), store, "acme", "invoice")
		calls["NextEach of many"] = func() error { _, err := store.NextEach(ctx, append(names, names[:200]...)); return err }
		calls["SubmitN of many"] = func() error { _, err := submit(t, store, "acme", ids...); return err }
		calls["DoneN of many"] = func() error { _, err := store.DoneN(ctx, "acme", ids, 0); return err }
		for name, call := range calls {
			for range 2 { // the first of them teaches the servers the script
				sent.take()
				if err := call(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
			}
			want := 1
			if name == "NextEach of many" {
				want = nodes
			}
			trips := sent.take()
			if len(trips) != want || !strings.HasSuffix(name, "many") && len(trips[0]) != 1 {
				t.Errorf("%s took %d round trips, want %d: %.200v", name, len(trips), want, trips)
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

// A call that is wrong, or is about nothing, does not even connect.
func TestTrips_Nothing(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	store := openStore(t, connect(t, &redis.Options{Addr: server.Addr()}), nil)
	for name, call := range named.Calls(t.Context(), store, "", "a") {
		if err := call(); !errors.Is(err, priority.ErrInvalid) {
			t.Errorf("%s of no customer: %v", name, err)
		}
	}
	_, nextN := store.NextN(t.Context(), "acme", 0)
	_, nextEach := store.NextEach(t.Context(), nil)
	_, submitN := store.SubmitN(t.Context(), "acme", nil)
	_, doneN := store.DoneN(t.Context(), "acme", nil, 0)
	if err := errors.Join(nextN, nextEach, submitN, doneN); err != nil {
		t.Error(err)
	}
	if n := server.TotalConnectionCount(); n != 0 {
		t.Errorf("%d connections and %d commands", n, server.CommandCount())
	}
}

// wire is a hook that notes what a client sends, and looks at it before it is sent, as the
// hooks of tracing libraries do.
type wire struct {
	mu    sync.Mutex
	trips [][]redis.Cmder // the commands of each round trip
}

func (w *wire) sent(cmds ...redis.Cmder) {
	for _, cmd := range cmds {
		_, _ = cmd.Args(), cmd.String()
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trips = append(w.trips, cmds)
}

// take returns the round trips since the last take, but for those that connect.
func (w *wire) take() [][]redis.Cmder {
	w.mu.Lock()
	defer w.mu.Unlock()
	trips := slices.DeleteFunc(w.trips, func(trip []redis.Cmder) bool { return !strings.HasPrefix(trip[len(trip)-1].Name(), "eval") })
	w.trips = nil
	return trips
}

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.sent(cmd)
		return next(ctx, cmd)
	}
}

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		w.sent(cmds...)
		return next(ctx, cmds)
	}
}

// The user that docs/redis.md makes for a store can do all that a store does, and needs
// each of its rights.
func TestRights(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, &redis.Options{Addr: server.Addr, Username: "store", Password: "secret"})
	rights := grant(t, server)
	if err := useEveryRight(t, server, client); err != nil {
		t.Error(err)
	}
	for _, right := range rights {
		grant(t, server, "-"+right[1:])
		if useEveryRight(t, server, client) == nil {
			t.Errorf("everything works without %s", right)
		}
	}
}

// And on a cluster.
func TestRights_Cluster(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile("On a Redis Cluster add `([^`]*)` to each").FindStringSubmatch(string(markdown.Read(t, "docs/redis.md")))
	if line == nil {
		t.Fatal("docs/redis.md does not say what a cluster needs")
	}
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Masters {
		grant(t, node, strings.Fields(line[1])...)
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), Username: "store", Password: "secret"})
	defer client.Close()
	store := openStore(t, client, &priority.RedisOptions{Timeout: -1})
	for name, call := range named.Calls(t.Context(), store, "acme", "invoice-1") {
		if err := call(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	cluster.MoveSlot(store.Keys("acme").Count, func() { // now and then ASK
		if _, err := store.Next(t.Context(), "acme"); err != nil {
			t.Errorf("Next while the slot moves: %v", err)
		}
	})
	for _, node := range cluster.Masters {
		redistest.WantNothingRefused(t, node.Client())
	}
}

// grant makes the user that docs/redis.md documents for a store, with further rules, and
// returns the documented rights.
func grant(t *testing.T, server *redistest.Server, further ...string) (rights []string) {
	t.Helper()
	keys, rights := markdown.Read(t, "docs/redis.md").Rights(t, "store")
	args := []any{"ACL", "SETUSER", "store", "reset", "on", ">secret"}
	for _, rule := range slices.Concat(keys, rights, further) {
		args = append(args, rule)
	}
	check(t, server.Client().Do(t.Context(), args...).Err())
	return rights
}

// useEveryRight does all that a store can do, beginning without a key and without
// a script in the server's cache, and returns what did not work.
func useEveryRight(t *testing.T, server *redistest.Server, client priority.RedisClient) error {
	t.Helper()
	admin := server.Client()
	check(t, errors.Join(admin.FlushAll(t.Context()).Err(), admin.ScriptFlush(t.Context()).Err()))
	var errs []error
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		store := openStore(t, client, &priority.RedisOptions{Policy: priority.Policy{ResetMode: mode}, Timeout: -1})
		do := func(names ...string) {
			calls := named.Calls(t.Context(), store, "acme", "invoice-1")
			for _, name := range names {
				if err := calls[name](); err != nil {
					errs = append(errs, fmt.Errorf("%v, %s: %w", mode, name, err))
				}
			}
		}
		do("Next", "Next", "NextN", "NextEach", "Submit", "SubmitN", "Peek")
		// A lease that has ended is cleared away by the next Submit, and a count that has no
		// room left is put back and reported.
		check(t, admin.ZAdd(t.Context(), store.Keys("acme").Pending, redis.Z{Score: 1, Member: "ended"}).Err())
		check(t, admin.Set(t.Context(), store.Keys("full").Count, "-999999999999999", time.Minute).Err())
		do("Submit")
		_, err := submit(t, store, "acme", "invoice-1", "invoice-2")
		errs = append(errs, err)
		do("Done", "DoneN", "Reset")
		if _, err := store.Next(t.Context(), "full"); !errors.Is(err, priority.ErrCorrupt) {
			errs = append(errs, fmt.Errorf("Next of a count that is full: %w", err))
		}
	}
	return errors.Join(errs...)
}
