package priority_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/ledger"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// traffic is a mixed load of several workers, and what they were told.
type traffic struct {
	customers []string
	book      ledger.Ledger
	names     atomic.Int64

	t       *testing.T
	stopped atomic.Bool
	workers sync.WaitGroup
}

// startTraffic lets four workers send documents until the traffic is stopped.
func startTraffic(t *testing.T, stores ...*priority.RedisStore) *traffic {
	tr := &traffic{t: t, customers: numbered("customer", 20)}
	for worker := range 4 {
		store := stores[worker%len(stores)]
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				if err := tr.send(store); err != nil {
					time.Sleep(time.Millisecond) // a refusal that costs nothing must not become a busy loop
				}
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

// send has some documents counted, or submits one of a new customer.
func (tr *traffic) send(store priority.Store) error {
	ctx := context.Background()
	var of []string // the customers of the documents
	var decisions []priority.Decision
	var err error
	customer := func() string { return tr.customers[rand.IntN(len(tr.customers))] }
	switch rand.IntN(4) {
	case 0:
		of = slices.Repeat([]string{customer()}, 1+rand.IntN(3))
		decisions, err = store.NextN(ctx, of[0], len(of))
	case 1:
		of = []string{customer(), customer(), customer(), customer()}
		decisions, err = store.NextEach(ctx, of)
	case 2:
		of = []string{fmt.Sprint("submitter ", tr.names.Add(1))}
		decisions, err = one(store.Submit(ctx, of[0], priority.Document{ID: "a"}))
	default:
		of = []string{customer()}
		decisions, err = one(store.Next(ctx, of[0]))
	}
	for i, err := range itemerrors.Of(err, len(of)) {
		var decision priority.Decision
		if err == nil {
			decision = decisions[i]
		}
		tr.book.Note(of[i], decision, err)
	}
	return err
}

// await waits until so many more documents were counted.
func (tr *traffic) await(more int) {
	tr.t.Helper()
	until := tr.book.Totals().Answered + more
	redistest.Await(tr.t, fmt.Sprintf("%d more documents are counted", more), func() bool {
		return tr.book.Totals().Answered >= until
	})
}

func (tr *traffic) stop() {
	tr.stopped.Store(true)
	tr.workers.Wait()
}

// reconcile stops the traffic and compares what was told with what Redis holds. It
// fails the test if anything is counted that nobody was told of. What Redis forgot is
// missing.
func (tr *traffic) reconcile(held redis.Cmdable, store *priority.RedisStore) (missing int) {
	tr.t.Helper()
	tr.stop()
	totals, r := tr.book.Totals(), tr.book.Reconcile(tr.t, held, store.Keys)
	tr.t.Logf("%+v; %+v", totals, r)
	if totals.Other != 0 || r.Extra != 0 {
		tr.t.Errorf("%d documents failed with an error of no class, and %d were counted that nobody was told of", totals.Other, r.Extra)
	}
	return r.Missing + r.Twice
}

// mustBeExact reconciles, where nothing may be missing.
func (tr *traffic) mustBeExact(held redis.Cmdable, store *priority.RedisStore) {
	tr.t.Helper()
	if missing := tr.reconcile(held, store); missing != 0 {
		tr.t.Errorf("%d documents are missing", missing)
	}
}

// twoStores are stores with a client each, one with an AutoPipeliner.
func twoStores(t *testing.T, addr string) (first, second *priority.RedisStore) {
	t.Helper()
	own := &redis.Options{Addr: addr}
	return openStore(t, connect(t, own), nil), openStore(t, autoPipeline(t, connect(t, own)), nil)
}

// A Redis that is killed under load, and has every write on disk, loses nothing.
func TestKilled(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	first, second := twoStores(t, server.Addr)
	tr := startTraffic(t, first, second)
	for range 3 {
		tr.await(300)
		server.Kill()
		server.Restart()
	}
	tr.await(300)
	tr.mustBeExact(server.Client(), first)
}

// The connections are killed under load, again and again, with replies on their way.
func TestKilled_Connections(t *testing.T) {
	server := redistest.Start(t)
	first, second := twoStores(t, server.Addr)
	tr := startTraffic(t, first, second)
	for range 40 {
		tr.await(30)
		server.KillClients()
	}
	tr.mustBeExact(server.Client(), first)
	if tr.book.Totals().OutcomeUnknown == 0 {
		t.Errorf("%v; want some whose answer was lost", tr.book.Totals())
	}
}

// A failover under load loses what the replica never got, and nothing counts twice.
func TestFailover(t *testing.T) {
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
	missing := tr.reconcile(replica.Client(), store)
	if all := tr.book.Totals().Answered; missing > all/2 {
		t.Errorf("%d of %d documents are missing, more than what was under way", missing, all)
	}
}

// Slots of a cluster move under load, and no document is lost or counts twice.
func TestSlotMigration(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	store := openStore(t, cluster.Client(), nil)
	tr := startTraffic(t, store)
	tr.await(100)
	for _, customer := range tr.customers {
		cluster.MoveSlot(store.Keys(customer).Count, func() { tr.await(30) })
	}
	tr.await(300)
	tr.mustBeExact(cluster.Client(), store)
}
