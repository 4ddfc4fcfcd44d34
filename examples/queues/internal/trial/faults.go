package trial

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
)

// These promises are tested on a fleet of worker processes.

const (
	load  = 300
	takes = 20 * time.Millisecond
)

// killedBroker: a server that crashes and comes back in the middle of the load loses
// nothing, and consumers and producers go on by themselves.
func killedBroker(t *testing.T, s *Subject) {
	tr := newTrial(t, s, true)
	tr.underLoad(tr.killBroker)
}

// cutConnection: so it is when only the connections are lost.
func cutConnection(t *testing.T, s *Subject) {
	tr := newTrial(t, s, false)
	tr.underLoad(func() {
		tr.cutConnections()
		tr.awaitServed(2 * load / 3)
		tr.cutConnections()
	})
}

// shutdownUnderLoad: a worker that is asked to end finishes what it has in hand, and
// leaves the rest to others. No document is repeated.
func shutdownUnderLoad(t *testing.T, s *Subject) {
	tr := newTrial(t, s, false)
	tr.underLoad(func() {
		tr.workers[0].end()
		tr.startWorker()
		tr.awaitServed(2 * load / 3)
		tr.workers[1].end()
	})
}

// underLoad has two worker processes serve a load, and does something to them when
// a third of it was served.
func (tr *trial) underLoad(fault func()) {
	tr.t.Helper()
	tr.startWorker()
	tr.startWorker()
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		tr.produceAll(load, takes)
	}()
	tr.awaitServed(load / 3)
	fault()
	<-produced
	tr.settle()
}

// killedWorker: what a worker had in hand when it was killed is served by another. The
// document takes 3 s, for which the worker's own limit has to leave room.
func killedWorker(t *testing.T, s *Subject) {
	tr := newTrial(t, s, false)
	victim := tr.startWorker()
	tr.produce(customers[0], "held", "3s")
	tr.awaitBegun("held", 1)
	tr.killWorker(victim)
	if s.Expire != nil {
		s.Expire(t, tr.direct, tr.config.Name)
	}
	tr.startWorker()
	tr.produceAll(load/3, takes)
	tr.settle()
	tr.awaitBegun("held", 2) // else the one that was killed did not have it
}

// killer: a document whose worker dies of it, each time, is given up after as many
// deaths.
func killer(t *testing.T, s *Subject) {
	tr := newTrial(t, s, false)
	tr.produce(customers[0], "killer", time.Hour.String())
	for death := range s.Deaths {
		w := tr.startWorker()
		tr.awaitBegun("killer", death+1)
		tr.killWorker(w)
	}
	tr.startWorker()
	tr.settle("killer")
}

// poison: a document that always fails, at level 1 as any customer's first one,
// is tried three times and given up. A hundred good ones are served meanwhile.
func poison(t *testing.T, s *Subject) {
	tr := newTrial(t, s, false)
	tr.produce(customers[0], "poison", program.Fails)
	tr.startWorker()
	tr.produceAll(100, takes)
	tr.settle("poison")
	if failed := tr.books.count("poison", program.Failed); failed != 3 {
		t.Errorf("it was tried %d times, want 3", failed)
	}
}

// longDocument: documents that take longer than the queue waits for an acknowledgement
// are begun once, also a worker's that is asked to end meanwhile.
func longDocument(t *testing.T, s *Subject) {
	tr := newTrial(t, s, s.Start != nil)
	ending := tr.startWorker("-workers", "1")
	tr.produce(customers[0], "long in the end", s.Long.String())
	tr.awaitBegun("long in the end", 1)
	tr.startWorker()
	tr.produce(customers[0], "long", s.Long.String())
	tr.awaitBegun("long", 1)
	ending.end()
	tr.settle()
	for _, document := range tr.produced {
		if began := tr.books.count(document, program.Began); began != 1 {
			t.Errorf("%s was begun %d times", document, began)
		}
	}
}

// soakEnvironment says how long soak goes on; 10 s where it is not set.
const soakEnvironment = "PRIORITY_SOAK"

// soak: faults of all kinds come at random times, in any order, with documents that
// fail among those that do not. The books are exact in the end.
func soak(t *testing.T, s *Subject) {
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv(soakEnvironment), "10s"))
	if err != nil {
		t.Fatalf("%s: %v", soakEnvironment, err)
	}
	tr := newTrial(t, s, true)
	tr.startWorker()
	tr.startWorker()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))

	stop := make(chan struct{})
	var failing []string
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		for number := 0; ; number++ {
			select {
			case <-stop:
				return
			case <-time.After(10 * time.Millisecond):
			}
			customer := customers[number%len(customers)]
			document, body := fmt.Sprint(customer, "-", number), takes.String()
			if number%100 == 50 {
				failing, body = append(failing, document), program.Fails
			}
			tr.produce(customer, document, body)
		}
	}()
	faults := []func(){
		tr.killBroker,
		tr.cutConnections,
		func() {
			tr.killWorker(tr.running(random.IntN(2)))
			tr.startWorker()
		},
		func() {
			tr.running(random.IntN(2)).end()
			tr.startWorker()
		},
		func() {
			paused := tr.running(random.IntN(2))
			paused.signal(syscall.SIGSTOP)
			time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
			paused.signal(syscall.SIGCONT)
			tr.mayRepeat(workersAProcess)
		},
	}
	done := 0
	for end := time.Now().Add(lasts); time.Now().Before(end); done++ {
		time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
		faults[random.IntN(len(faults))]()
	}
	close(stop)
	<-produced
	tr.settle(failing...)
	t.Logf("%d faults", done)
}
