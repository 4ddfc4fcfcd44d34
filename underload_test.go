package priority_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
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

// traffic is a mixed load of several workers, and what they were told. Some
// customers' documents are counted by the rule alone. Those of others are submitted,
// each until there is an answer, as the contract allows; and half of them are done,
// in the same way.
type traffic struct {
	customers []string
	book      ledger.Ledger

	mu         sync.Mutex
	submitters map[string]*account
	given      [submitters]int64 // documents to each of those who submit at a time
	failed     int               // documents of Submits and Dones that failed for a moment
	other      int               // of these, with an error of no class, or of several

	t       *testing.T
	stopped atomic.Bool
	workers sync.WaitGroup
	names   atomic.Int64
}

const submitters = 10

// account is what a customer's submitted documents came to. What is uncertain is
// what had no answer when the traffic was stopped. A customer submits fewer documents
// than the 512 that are remembered, so that Redis tells how many it has counted.
type account struct{ counted, maybeCounted, pending, maybePending int64 }

// startTraffic lets four workers send documents until the traffic is stopped. Two of
// them only count. The other two submit, and each stays with its documents until they
// have an answer. If one worker did both, a test that holds up a submitter's documents
// while it awaits counted ones could wait forever.
func startTraffic(t *testing.T, stores ...*priority.RedisStore) *traffic {
	tr := &traffic{t: t, customers: customers(20), submitters: make(map[string]*account)}
	for worker := range 2 {
		store := stores[worker%len(stores)]
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				if err := tr.count(store); err != nil {
					time.Sleep(time.Millisecond) // a refusal that costs nothing must not become a busy loop
				}
			}
		})
		tr.workers.Go(func() {
			for !tr.stopped.Load() {
				tr.submit(store)
			}
		})
	}
	t.Cleanup(tr.stop)
	return tr
}

// count has the rule count some documents.
func (tr *traffic) count(store priority.Store) error {
	ctx := context.Background()
	customer := func() string { return tr.customers[rand.IntN(len(tr.customers))] }
	switch rand.IntN(4) {
	case 0:
		customer, n := customer(), 1+rand.IntN(3)
		decisions, err := store.NextN(ctx, customer, n)
		tr.book.NoteN(customer, n, decisions, err)
		return err
	case 1:
		each := []string{customer(), customer(), customer(), customer()}
		decisions, err := store.NextEach(ctx, each)
		tr.book.NoteEach(each, decisions, err)
		return err
	default:
		customer := customer()
		decision, err := store.Next(ctx, customer)
		tr.book.Note(customer, decision, err)
		return err
	}
}

// submit submits one document, or some that may be more than one command, and says
// of half of them that they are done.
func (tr *traffic) submit(store priority.Store) {
	ctx := context.Background()
	documents := make([]string, 1+rand.IntN(2)*rand.IntN(80))
	for i := range documents {
		documents[i] = strconv.FormatInt(tr.names.Add(1), 10)
	}
	n := int64(len(documents))
	submitter := tr.submitter(n)
	answered := tr.persist(documents, func(documents []string) error {
		if len(documents) == 1 {
			_, err := store.Submit(ctx, submitter, documents[0], 0)
			return err
		}
		_, err := store.SubmitN(ctx, submitter, documents, nil)
		return err
	})
	sum := account{counted: answered, maybeCounted: n - answered, pending: answered, maybePending: n - answered}
	if answered == n && rand.IntN(2) == 0 {
		done := tr.persist(documents, func(documents []string) error {
			if len(documents) == 1 {
				return store.Done(ctx, submitter, documents[0], time.Second)
			}
			return store.DoneN(ctx, submitter, documents, time.Second)
		})
		sum.pending, sum.maybePending = 0, n-done
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	a := tr.submitters[submitter]
	a.counted += sum.counted
	a.maybeCounted += sum.maybeCounted
	a.pending += sum.pending
	a.maybePending += sum.maybePending
}

// submitter returns a customer who submits n documents more.
func (tr *traffic) submitter(n int64) string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	of := rand.IntN(submitters)
	tr.given[of] += n
	name := fmt.Sprintf("submitter %d.%d", of, tr.given[of]/400)
	if tr.submitters[name] == nil {
		tr.submitters[name] = new(account)
	}
	return name
}

// persist makes a call again for the documents that failed, until none does or the
// traffic is stopped. It returns how many have an answer.
func (tr *traffic) persist(documents []string, call func(documents []string) error) (answered int64) {
	all := len(documents)
	for {
		var left []string
		other := 0
		for i, err := range priority.ItemErrors(call(documents), len(documents)) {
			if err == nil {
				continue
			}
			left = append(left, documents[i])
			if errors.Is(err, priority.ErrNotCounted) == errors.Is(err, priority.ErrOutcomeUnknown) {
				other++
			}
		}
		tr.mu.Lock()
		tr.failed += len(left)
		tr.other += other
		tr.mu.Unlock()
		if documents = left; len(documents) == 0 || tr.stopped.Load() {
			return int64(all - len(documents))
		}
		time.Sleep(time.Millisecond)
	}
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
// missing, Dones included.
func (tr *traffic) reconcile(held redis.Cmdable, store *priority.RedisStore) (missing int) {
	tr.t.Helper()
	tr.stop()
	r := tr.book.Reconcile(heldBy(held, store))
	tr.t.Logf("%v; %v", tr.book.Totals(), r)
	if other := tr.book.Totals().Other + tr.other; other != 0 {
		tr.t.Errorf("%d documents failed with an error of no class, or of two", other)
	}
	if r.Extra != 0 {
		tr.t.Errorf("%d documents were counted that nobody was told of", r.Extra)
	}
	missing = r.Missing + r.Twice
	documents, retried := int64(0), tr.failed
	for submitter, a := range tr.submitters {
		pending, err := held.ZCard(context.Background(), store.PendingKey(submitter)).Result()
		ttl, err2 := held.PTTL(context.Background(), store.UsageKey(submitter)).Result()
		if err := errors.Join(err, err2); err != nil {
			tr.t.Fatal(err)
		}
		counted := int64(0)
		if ttl > 0 { // some of it has faded since
			counted = int64(math.Round(latelyOf(ttl) + latelyOf(ttl)*serverSlack.Hours()/24/2))
		}
		if counted > a.counted+a.maybeCounted || pending > a.pending+a.maybePending+a.counted {
			tr.t.Errorf("%s has %d counted and %d pending, more than %+v", submitter, counted, pending, *a)
		}
		// A Done that Redis forgot leaves a document pending.
		lostDones := max(0, pending-a.pending-a.maybePending)
		missing += int(max(0, a.counted-counted) + max(0, a.pending-pending) + lostDones)
		documents += a.counted
	}
	if documents == 0 {
		tr.t.Error("no document was submitted")
	}
	tr.t.Logf("%d documents submitted, with %d failures on the way; in all, %d missing", documents, retried, missing)
	return missing
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
	plain, pipeliner := twoClients(t, addr)
	return openStore(t, plain, nil), openStore(t, pipeliner, nil)
}

func TestUnderLoad_Crash(t *testing.T) {
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
		tr.mustBeExact(server.Client(), first)
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
		if tr.reconcile(server.Client(), first) == 0 {
			t.Error("want documents missing that Redis forgot")
		}
	})
}

func TestUnderLoad_KilledConnections(t *testing.T) {
	killing := func(t *testing.T, held redis.Cmdable, servers []*redistest.Server, stores ...*priority.RedisStore) {
		tr := startTraffic(t, stores...)
		for range 40 {
			tr.await(30)
			for _, server := range servers {
				server.KillClients()
			}
		}
		tr.mustBeExact(held, stores[0])
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
	t.Run("ClusterClient and its AutoPipeliner", func(t *testing.T) {
		cluster := redistest.StartCluster(t, 3)
		pipeliner := autoPipeline(t, cluster.Client())
		killing(t, cluster.Client(), cluster.Masters, openStore(t, cluster.Client(), nil), openStore(t, pipeliner, nil))
	})
	t.Run("FailoverClient", func(t *testing.T) {
		master := redistest.Start(t)
		redistest.StartReplica(t, master)
		sentinel := redistest.StartSentinel(t, master)
		watch := redis.NewSentinelClient(&redis.Options{Addr: sentinel})
		defer watch.Close()
		if err := watch.Set(t.Context(), redistest.MasterName, "down-after-milliseconds", "60000").Err(); err != nil {
			t.Fatal(err) // no failover is wanted here, however slow the machine is
		}
		client := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: []string{sentinel}})
		defer client.Close()
		killing(t, master.Client(), []*redistest.Server{master}, openStore(t, client, nil))
	})
}

func TestUnderLoad_Failover(t *testing.T) {
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
	if all := tr.book.Totals().Answered + int(tr.names.Load()); missing > all/2 {
		t.Errorf("%d of %d documents are missing, more than what was under way", missing, all)
	}
}

func TestUnderLoad_SlotMigration(t *testing.T) {
	ctx := context.Background()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	store := openStore(t, client, nil)
	tr := startTraffic(t, store)
	tr.await(100)
	owner := func(slot int) *redistest.Server { return cluster.Masters[slot*3/16384] }
	for customer := range strings.SplitSeq(strings.Join(tr.customers, ",")+",submitter 0.0,submitter 1.0", ",") {
		slot := int(client.ClusterKeySlot(ctx, store.Key(customer)).Val())
		from := owner(slot)
		to := cluster.Masters[(slot*3/16384+1)%3]
		cluster.MoveSlot(slot, from, to, func() { tr.await(30) })
	}
	tr.await(300)
	tr.mustBeExact(cluster.Client(), store)
}

// latelyOf returns how many documents were submitted lately if a usage has a TTL.
func latelyOf(ttl time.Duration) float64 { return math.Exp2(ttl.Hours()/24 - 1) }
