package trial

import (
	"context"
	"fmt"
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

// trial is a fleet of worker processes and a producer, who reach their queue's server
// through a proxy. The books tell what became of each document.
type trial struct {
	t                 *testing.T
	subject           *Subject
	broker            *server.Server // of this trial alone; nil: shared
	proxy             *redistest.Proxy
	config            *program.Config // of the producer
	queue             program.Queue   // the producer's
	direct            string          // the server's address, around the proxy
	counts            string          // the address of the Redis with the fleet's counts
	store             *priority.RedisStore
	books             *books
	workers           []*worker
	forgets, confirms time.Duration
	hurried           time.Time

	mutex    sync.Mutex
	produced []string // documents that the queue has, as it has confirmed
	repeats  int      // how often a document may have been served once more
}

// newTrial opens a producer's queue on the shared server, or on one that may be killed.
func newTrial(t *testing.T, s *Subject, ownServer bool) *trial {
	t.Helper()
	tr := &trial{t: t, subject: s, books: openBooks(t)}
	example, config := s.parse(t, queueOf(t))
	tr.config, tr.forgets, tr.confirms = config, example.Forgets, example.Confirms
	if ownServer {
		tr.broker = s.ownServer(t)
		config.URL = tr.broker.URL
	} else {
		config.URL = s.Server(t)
	}
	tr.direct = config.URL
	address, err := url.Parse(config.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr.proxy = redistest.StartProxy(t, address.Host)
	address.Host = tr.proxy.Addr

	counts := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: counts.Addr})
	t.Cleanup(func() { _ = client.Close() })
	if tr.store, err = priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 10 * time.Second}); err != nil {
		t.Fatal(err)
	}
	tr.counts = "redis://" + counts.Addr
	config.URL, config.Store, config.Backoff = address.String(), tr.store, backoff
	if tr.queue, err = example.Open(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tr.queue.Close() })
	return tr
}

// produce puts a customer's document into the queue. A document that the queue may
// have without the producer knowing is sent again until it has confirmed one.
func (tr *trial) produce(customer, document, body string) {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), patience)
	defer cancel()
	if err := tr.queue.Produce(ctx, customer, document, []byte(body)); err != nil {
		tr.t.Errorf("produce %s: %v", document, err)
		return
	}
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	tr.produced = append(tr.produced, document)
}

// produceAll puts as many documents into the queue, by a few producers at a time,
// each of which takes as long to serve.
func (tr *trial) produceAll(documents int, takes time.Duration) {
	numbers := make(chan int)
	var producers sync.WaitGroup
	for range producersAtATime {
		producers.Go(func() {
			for number := range numbers {
				customer := customers[number%len(customers)]
				tr.produce(customer, fmt.Sprint(customer, "-", number), takes.String())
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

// killBroker ends the server as a crash would, and starts it again.
func (tr *trial) killBroker() {
	tr.t.Helper()
	forgotten := time.Now().Add(-tr.forgets)
	tr.broker.Kill()
	tr.mayRepeat(tr.inHand() + producersAtATime + tr.books.servedSince(forgotten))
	if err := tr.broker.Restart(tr.t.Context()); err != nil {
		tr.t.Fatal(err)
	}
}

// cutConnections closes all connections to the server, in the middle of whatever
// is on them.
func (tr *trial) cutConnections() {
	tr.proxy.CloseConnections()
	tr.mayRepeat(tr.inHand() + producersAtATime)
}

// killWorker ends a worker in the middle of what it does.
func (tr *trial) killWorker(w *worker) {
	unconfirmed := time.Now().Add(-tr.confirms)
	w.kill()
	tr.mayRepeat(workersAProcess)
	if tr.confirms > 0 {
		tr.mayRepeat(tr.books.servedSince(unconfirmed))
	}
}

// running returns the nth worker that has not been ended, from 0.
func (tr *trial) running(n int) *worker {
	for _, w := range tr.workers {
		if !w.over {
			if n == 0 {
				return w
			}
			n--
		}
	}
	tr.t.Fatal("no such worker")
	return nil
}

// mayRepeat notes that a fault had as many documents on their way, each of which
// may be served twice.
func (tr *trial) mayRepeat(documents int) {
	tr.mutex.Lock()
	defer tr.mutex.Unlock()
	tr.repeats += documents
}

// inHand is how many documents the workers have in hand at most.
func (tr *trial) inHand() int {
	running := 0
	for _, w := range tr.workers {
		if !w.over {
			running++
		}
	}
	return running * workersAProcess
}

const workersAProcess = 4 // the default of -workers

// awaitServed returns when as many different documents were served.
func (tr *trial) awaitServed(documents int) {
	tr.t.Helper()
	Await(tr.t, fmt.Sprint(documents, " documents are served"), func() bool { return len(tr.books.served()) >= documents })
}

// awaitBegun returns when a document was begun as often.
func (tr *trial) awaitBegun(document string, times int) {
	tr.t.Helper()
	Await(tr.t, fmt.Sprintf("%s is begun %d times", document, times), func() bool {
		return tr.books.count(document, program.Began) >= times
	})
}

// hurry has the queue give out what was lost on its way to a worker, if nobody has worked
// on anything for a while and the queue would wait for minutes.
func (tr *trial) hurry() {
	events := tr.books.read()
	if tr.subject.Expire == nil || len(events) == 0 || time.Since(events[len(events)-1].At) < 5*time.Second || time.Since(tr.hurried) < 10*time.Second {
		return
	}
	tr.hurried = time.Now()
	tr.mayRepeat(tr.inHand())
	tr.subject.Expire(tr.t, tr.direct, tr.config.Name)
	tr.startWorker()
}

// settle waits until each document was served or given up, ends the workers, and
// checks the books: each document but those that fail was served once, or once more
// for each that a fault met on its way; those that fail are given up; nothing is
// pending.
func (tr *trial) settle(failing ...string) {
	tr.t.Helper()
	Await(tr.t, "all are served", func() bool {
		tr.hurry()
		return len(tr.books.served()) >= len(tr.produced)-len(failing)
	})
	awaitDead(tr.t, tr.queue, failing...)
	for _, w := range tr.workers {
		if !w.over {
			w.end()
		}
	}
	more, served := 0, tr.books.served()
	for _, document := range tr.produced {
		switch isFailing := slices.Contains(failing, document); {
		case isFailing && served[document] > 0:
			tr.t.Errorf("%s fails, and was served %d times", document, served[document])
		case !isFailing && served[document] == 0:
			tr.t.Errorf("%s is lost", document)
		case served[document] > 1:
			more += served[document] - 1
		}
	}
	if more > tr.repeats {
		tr.t.Errorf("documents were served %d times more than once; the faults explain %d", more, tr.repeats)
	}
	tr.t.Logf("%d documents; %d served once more, of %d that may have been", len(tr.produced), more, tr.repeats)
	awaitNothingPending(tr.t, tr.store, customers...)
}
