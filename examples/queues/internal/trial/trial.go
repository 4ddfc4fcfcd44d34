// Package trial puts a queue's program on trial: on a real server, with a fleet of
// worker processes, under faults. The books tell what became of each document.
package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// customers send the documents of a trial, in turn.
var customers = []string{"archive", "bakery", "clinic", "dentist", "estate"}

// Trial is a queue on a real server, which the producer and the workers reach
// through a proxy.
type Trial struct {
	tb      testing.TB
	broker  *server.Server
	proxy   *redistest.Proxy
	config  program.Config // of the producer
	queue   program.Queue  // the producer's
	counts  string         // the address of the Redis with the fleet's counts
	store   *priority.RedisStore
	books   *books
	workers []*Worker

	workerFlags []string
	forgets     time.Duration

	mutex    sync.Mutex
	produced []string // documents that the queue has, as it has confirmed
	repeats  int      // how often a document may have been served once more
}

// Backoff is that of a trial's workers: a document may fail three times.
const Backoff = "100ms,200ms"

// New starts a server, a Redis for the counts, and opens a producer's queue. The
// flags are given to each worker beside its addresses.
func New(tb testing.TB, example *program.Example, workerFlags ...string) *Trial {
	tb.Helper()
	broker, err := example.Start(tb.Context())
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(tb, err.Error())
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(broker.Stop)
	address, err := url.Parse(broker.URL)
	if err != nil {
		tb.Fatal(err)
	}
	proxy := redistest.StartProxy(tb, address.Host)
	address.Host = proxy.Addr

	counts := redistest.Start(tb)
	client := redis.NewClient(&redis.Options{Addr: counts.Addr})
	tb.Cleanup(func() { _ = client.Close() })
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 10 * time.Second})
	if err != nil {
		tb.Fatal(err)
	}
	tr := &Trial{
		tb: tb, broker: broker, proxy: proxy, counts: "redis://" + counts.Addr, store: store, books: openBooks(tb),
		workerFlags: append([]string{"-backoff", Backoff}, workerFlags...), forgets: example.Forgets,
		config: program.Config{
			URL: address.String(), Store: store, Name: "documents",
			Workers: 1, Limit: time.Minute, Backoff: []time.Duration{100 * time.Millisecond, 200 * time.Millisecond},
			Logger: slog.New(slog.DiscardHandler),
		},
	}
	tr.queue, err = example.Open(tb.Context(), &tr.config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = tr.queue.Close() })
	return tr
}

// Produce puts a customer's document into the queue. A document that the queue may
// have without the producer knowing is sent again until it has confirmed one.
func (tr *Trial) Produce(customer, document, body string) {
	tr.tb.Helper()
	ctx, cancel := context.WithTimeout(tr.tb.Context(), patience)
	defer cancel()
	if err := tr.queue.Produce(ctx, customer, document, []byte(body)); err != nil {
		tr.tb.Errorf("produce %s: %v", document, err)
		return
	}
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	tr.produced = append(tr.produced, document)
}

// ProduceAll puts as many documents into the queue, by a few producers at a time,
// each of which takes as long to serve.
func (tr *Trial) ProduceAll(documents int, takes time.Duration) {
	numbers := make(chan int)
	var producers sync.WaitGroup
	for range producersAtATime {
		producers.Go(func() {
			for number := range numbers {
				customer := customers[number%len(customers)]
				tr.Produce(customer, fmt.Sprint(customer, "-", number), takes.String())
			}
		})
	}
	for number := range documents {
		numbers <- number
	}
	close(numbers)
	producers.Wait()
}

const producersAtATime = 2

// KillBroker ends the server as a crash would, and starts it again.
func (tr *Trial) KillBroker() {
	tr.tb.Helper()
	forgotten := time.Now().Add(-tr.forgets)
	tr.broker.Kill()
	tr.mayRepeat(tr.inHand() + producersAtATime + tr.books.servedSince(forgotten))
	if err := tr.broker.Restart(tr.tb.Context()); err != nil {
		tr.tb.Fatal(err)
	}
}

// CutConnections closes all connections to the server, in the middle of whatever
// is on them.
func (tr *Trial) CutConnections() {
	tr.proxy.CloseConnections()
	tr.mayRepeat(tr.inHand() + producersAtATime)
}

// KillWorker ends a worker in the middle of what it does.
func (tr *Trial) KillWorker(w *Worker) {
	w.Kill()
	tr.mayRepeat(workersAProcess)
}

// Running returns the nth worker that has not been ended, from 0.
func (tr *Trial) Running(n int) *Worker {
	for _, w := range tr.workers {
		if !w.over {
			if n == 0 {
				return w
			}
			n--
		}
	}
	tr.tb.Fatal("no such worker")
	return nil
}

// mayRepeat notes that a fault had as many documents on their way, each of which
// may be served twice.
func (tr *Trial) mayRepeat(documents int) {
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	tr.repeats += documents
}

// inHand is how many documents the workers have in hand at most.
func (tr *Trial) inHand() int {
	running := 0
	for _, w := range tr.workers {
		if !w.over {
			running++
		}
	}
	return running * workersAProcess
}

const workersAProcess = 4 // the default of -workers

// AwaitServed returns when as many different documents were served.
func (tr *Trial) AwaitServed(documents int) {
	tr.tb.Helper()
	await(tr.tb, fmt.Sprint(documents, " documents are served"), func() bool { return tr.books.served() >= documents })
}

// Settle waits until each document was served or given up, ends the workers, and
// checks the books: each document but those that fail was served once, or once more
// for each that a fault met on its way; those that fail are given up; nothing is
// pending.
func (tr *Trial) Settle(failing ...string) {
	tr.tb.Helper()
	tr.mutex.Lock()
	produced, repeats := slices.Clone(tr.produced), tr.repeats
	tr.mutex.Unlock()
	tr.AwaitServed(len(produced) - len(failing))
	tr.AwaitDead(failing...)
	for _, w := range tr.workers {
		if !w.over {
			w.End()
		}
	}

	more := 0
	for _, document := range produced {
		served := tr.books.count(document, program.Served)
		switch isFailing := slices.Contains(failing, document); {
		case isFailing && served > 0:
			tr.tb.Errorf("%s fails, and was served %d times", document, served)
		case !isFailing && served == 0:
			tr.tb.Errorf("%s is lost", document)
		case served > 1:
			more += served - 1
		}
	}
	if more > repeats {
		tr.tb.Errorf("documents were served %d times more than once; the faults explain %d", more, repeats)
	}
	tr.tb.Logf("%d documents; %d served once more, of %d that may have been", len(produced), more, repeats)
	for _, customer := range customers {
		tr.awaitNothingPending(customer)
	}
}

// AwaitDead returns when just these documents were given up.
func (tr *Trial) AwaitDead(documents ...string) {
	tr.tb.Helper()
	slices.Sort(documents)
	var dead []string
	await(tr.tb, fmt.Sprintf("%q are given up", documents), func() bool {
		ctx, cancel := context.WithTimeout(tr.tb.Context(), 10*time.Second)
		defer cancel()
		var err error
		if dead, err = tr.queue.Dead(ctx); err != nil {
			return false // the server may be on its way up
		}
		slices.Sort(dead)
		return slices.Equal(slices.Compact(dead), documents)
	})
}

// awaitNothingPending: Done was said for each document of the customer.
func (tr *Trial) awaitNothingPending(customer string) {
	tr.tb.Helper()
	await(tr.tb, "nothing of "+customer+" is pending", func() bool {
		now, err := tr.store.Peek(tr.tb.Context(), customer)
		return err == nil && now.Pending == 0
	})
}

// patience is how long anything may take on a busy machine before the trial fails.
// asynq takes two minutes to notice that a worker is gone.
const patience = 3 * time.Minute

func await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v in vain: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
