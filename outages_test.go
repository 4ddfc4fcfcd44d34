package priority_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
)

// traffic is a mixed load of several workers, and what they were told.
type traffic struct {
	customers []string
	book      ledger.Ledger

	t       *testing.T
	stopped atomic.Bool
	workers sync.WaitGroup
}

// startTraffic lets four workers count documents of twenty customers until the
// traffic is stopped.
func startTraffic(t *testing.T, stores ...priority.Store) *traffic {
	tr := &traffic{t: t}
	for i := range 20 {
		tr.customers = append(tr.customers, fmt.Sprint("customer", i))
	}
	for worker := range 4 {
		store := stores[worker%len(stores)]
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				if err := tr.once(store); err != nil {
					time.Sleep(time.Millisecond) // a refusal that costs nothing must not become a busy loop
				}
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

func (tr *traffic) once(store priority.Store) error {
	ctx := context.Background()
	customer := func() string { return tr.customers[rand.IntN(len(tr.customers))] }
	switch rand.IntN(4) {
	case 0:
		customer, n := customer(), 1+rand.IntN(3)
		decisions, err := store.NextN(ctx, customer, n)
		tr.book.NoteN(customer, n, decisions, err)
		return err
	case 1:
		customers := []string{customer(), customer(), customer(), customer()}
		decisions, err := store.NextEach(ctx, customers)
		tr.book.NoteEach(customers, decisions, err)
		return err
	default:
		customer := customer()
		decision, err := store.Next(ctx, customer)
		tr.book.Note(customer, decision, err)
		return err
	}
}

// await waits until so many more documents were answered.
func (tr *traffic) await(more int) {
	tr.t.Helper()
	until := tr.book.Totals().Answered + more
	redistest.Await(tr.t, fmt.Sprintf("%d more documents are answered", more), func() bool {
		return tr.book.Totals().Answered >= until
	})
}

func (tr *traffic) stop() {
	tr.stopped.Store(true)
	tr.workers.Wait()
}

// reconcile stops the traffic and compares what was told with what is held.
func (tr *traffic) reconcile(held func(string) (int64, bool)) ledger.Reconciliation {
	tr.t.Helper()
	tr.stop()
	r := tr.book.Reconcile(held)
	tr.t.Logf("%v; %v", tr.book.Totals(), r)
	if other := tr.book.Totals().Other; other != 0 {
		tr.t.Errorf("%d documents failed with an error of no class", other)
	}
	if r.Extra != 0 {
		tr.t.Errorf("%d documents were counted that nobody was told of", r.Extra)
	}
	return r
}

func (tr *traffic) mustBeExact(held func(string) (int64, bool)) {
	tr.t.Helper()
	if r := tr.reconcile(held); !r.Exact() {
		tr.t.Errorf("not exact: %v", r)
	}
}

// twoStores are stores with a client each, one with an AutoPipeliner.
func twoStores(t *testing.T, addr string) (first, second *priority.RedisStore) {
	t.Helper()
	newClient := func() *redis.Client {
		client := redis.NewClient(&redis.Options{Addr: addr})
		t.Cleanup(func() { _ = client.Close() })
		return client
	}
	pipeliner, err := newClient().AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	return openStore(t, newClient(), nil), openStore(t, pipeliner, nil)
}

func TestCrashAndRestartUnderLoad(t *testing.T) {
	t.Run("with every write on disk", func(t *testing.T) {
		server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		for range 3 {
			tr.await(300)
			server.Kill()
			server.Restart()
		}
		tr.await(300)
		tr.mustBeExact(heldBy(server.Client(), first))
	})
	t.Run("without persistence", func(t *testing.T) {
		server := redistest.Start(t)
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		tr.await(1000)
		server.Kill()
		server.Restart()
		tr.await(300)
		// Redis lost all counts: they begin again, and nothing is counted twice.
		if r := tr.reconcile(heldBy(server.Client(), first)); r.Missing == 0 {
			t.Errorf("%v; want documents missing that Redis forgot", r)
		}
	})
}

func TestScriptFlushUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	first, second := twoStores(t, server.Addr)
	tr := startTraffic(t, first, second)
	direct := server.Client()
	for range 100 {
		tr.await(30)
		direct.ScriptFlush(context.Background())
	}
	tr.mustBeExact(heldBy(direct, first))
	if totals := tr.book.Totals(); totals.Answered != totals.Documents {
		t.Errorf("%v; want all answered", totals)
	}
}

func TestClientKillUnderLoad(t *testing.T) {
	killing := func(t *testing.T, held redis.Cmdable, servers []*redistest.Server, stores ...*priority.RedisStore) {
		tr := startTraffic(t, asStores(stores)...)
		for range 100 {
			tr.await(30)
			for _, server := range servers {
				server.KillClients()
			}
		}
		tr.mustBeExact(heldBy(held, stores[0]))
		if tr.book.Totals().OutcomeUnknown == 0 {
			t.Errorf("%v; want some whose answer was lost", tr.book.Totals())
		}
	}
	t.Run("Client and AutoPipeliner", func(t *testing.T) {
		server := redistest.Start(t)
		first, second := twoStores(t, server.Addr)
		killing(t, server.Client(), []*redistest.Server{server}, first, second)
	})
	t.Run("Ring", func(t *testing.T) {
		servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
		newRing := func() *redis.Ring {
			ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": servers[0].Addr, "two": servers[1].Addr}})
			t.Cleanup(func() { _ = ring.Close() })
			return ring
		}
		killing(t, newRing(), servers, openStore(t, newRing(), nil))
	})
	t.Run("ClusterClient", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3)
		killing(t, cluster.Client(), cluster.Masters, openStore(t, cluster.Client(), nil))
	})
	t.Run("FailoverClient", func(t *testing.T) {
		master := redistest.Start(t)
		redistest.StartReplica(t, master)
		client := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: redistest.MasterName, SentinelAddrs: []string{redistest.StartSentinel(t, master)},
		})
		defer client.Close()
		killing(t, master.Client(), []*redistest.Server{master}, openStore(t, client, nil))
	})
}

func asStores(stores []*priority.RedisStore) []priority.Store {
	all := make([]priority.Store, len(stores))
	for i, store := range stores {
		all[i] = store
	}
	return all
}

func TestProxyFaultsUnderLoad(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.StartProxy(t, server.Addr)
	first, second := twoStores(t, proxy.Addr)
	tr := startTraffic(t, first, second)
	for _, fault := range []redistest.Fault{redistest.Cut, redistest.Truncate, redistest.Swallow, redistest.Delay, redistest.Blackhole} {
		for range 5 {
			tr.await(50)
			proxy.Set(fault)
			until := tr.book.Totals().OutcomeUnknown + tr.book.Totals().NotCounted + 5
			redistest.Await(t, "documents fail", func() bool {
				return tr.book.Totals().OutcomeUnknown+tr.book.Totals().NotCounted >= until
			})
			proxy.Set(redistest.None)
		}
	}
	tr.await(50)
	tr.mustBeExact(heldBy(server.Client(), first))
}

func TestMemoryFullUnderLoad(t *testing.T) {
	ctx := context.Background()
	t.Run("noeviction", func(t *testing.T) {
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		direct := server.Client()
		for range 10 {
			tr.await(100)
			direct.ConfigSet(ctx, "maxmemory", "1")
			refused := tr.book.Totals().NotCounted
			redistest.Await(t, "documents are refused", func() bool { return tr.book.Totals().NotCounted > refused+20 })
			direct.ConfigSet(ctx, "maxmemory", "0")
		}
		tr.mustBeExact(heldBy(direct, first))
	})
	t.Run("eviction", func(t *testing.T) {
		server := redistest.Start(t, "--maxmemory-policy", "allkeys-random")
		first, second := twoStores(t, server.Addr)
		tr := startTraffic(t, first, second)
		direct := server.Client()
		tr.await(500)
		evicted := func() bool { return direct.DBSize(ctx).Val() < int64(len(tr.customers)) }
		used, err := direct.InfoMap(ctx, "memory").Result()
		if err != nil {
			t.Fatal(err)
		}
		direct.ConfigSet(ctx, "maxmemory", used["Memory"]["used_memory"])
		redistest.Await(t, "counts are evicted", func() bool {
			direct.Set(ctx, fmt.Sprint("filler", rand.Int()), make([]byte, 100_000), 0)
			return evicted()
		})
		direct.ConfigSet(ctx, "maxmemory", "0")
		tr.await(100)
		// An evicted count begins again; nothing is counted twice.
		tr.reconcile(heldBy(direct, first))
	})
}

func TestSentinelFailoverUnderLoad(t *testing.T) {
	master := redistest.Start(t)
	replica := redistest.StartReplica(t, master)
	sentinel := redistest.StartSentinel(t, master)
	client := redis.NewFailoverClient(&redis.FailoverOptions{
		MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel},
	})
	defer client.Close()
	store := openStore(t, client, nil)
	tr := startTraffic(t, store)
	tr.await(1000)
	master.Kill()
	tr.await(300)
	// What the master acknowledged and the replica never got is lost with it.
	r := tr.reconcile(heldBy(replica.Client(), store))
	if r.Missing > tr.book.Totals().Answered/2 {
		t.Errorf("%v: more is missing than what was under way", r)
	}
}

func TestClusterFailoverUnderLoad(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.StartCluster(t, 3)
	var replicas []*redis.Client
	for _, master := range cluster.Masters {
		replicas = append(replicas, cluster.AddReplica(master).Client())
	}
	store := openStore(t, cluster.Client(), nil)
	tr := startTraffic(t, store)
	tr.await(1000)
	cluster.Masters[0].Kill()
	redistest.Await(t, "its replica has taken over", func() bool {
		return strings.Contains(replicas[0].Info(ctx, "replication").Val(), "role:master")
	})
	redistest.Await(t, "customers of every node are answered again", func() bool {
		_, err := store.NextEach(ctx, []string{"a", "b", "c", "d", "e", "f", "g", "h"})
		return err == nil
	})
	tr.await(300)
	tr.reconcile(heldBy(cluster.Client(), store))
}

func TestSlotMigrationUnderLoad(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	store := openStore(t, client, nil)
	tr := startTraffic(t, store)
	tr.await(100)
	owner := func(slot int) *redistest.Server { return cluster.Masters[slot*3/16384] }
	for _, customer := range tr.customers {
		slot := int(client.ClusterKeySlot(ctx, store.Key(customer)).Val())
		from := owner(slot)
		to := cluster.Masters[(slot*3/16384+1)%3]
		cluster.MoveSlot(slot, from, to, func() { tr.await(5) })
	}
	tr.await(300)
	tr.mustBeExact(heldBy(cluster.Client(), store))
}

// A worker's clock cannot matter to the counts: what is sent does not depend on it.
func TestNoCommandCarriesATime(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client()
	sent := &wire{}
	client.AddHook(sent)
	store := openStore(t, client, nil)
	for range 4 {
		if _, err := store.Next(ctx, "acme"); err != nil {
			t.Fatal(err)
		}
	}
	trips := sent.take()
	trips = trips[len(trips)-3:] // the first document also loads the script
	want := []any{1, store.Key("acme")}
	for _, trip := range trips {
		args := trip[0].Args()
		if digest := args[1]; digest != trips[0][0].Args()[1] || !slices.Equal(args[2:], want) {
			t.Errorf("sent %v; want the same digest each time, and %v", args, want)
		}
	}
}
