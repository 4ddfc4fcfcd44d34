package trial

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/docpriority/priority/examples/queues/internal/program"
)

// Each of these is one promise of a queue's program, held to on its real server.

const (
	load  = 300
	takes = 20 * time.Millisecond
)

// KilledBroker: a server that crashes and comes back in the middle of the load loses
// nothing, and consumers and producers go on by themselves.
func KilledBroker(t *testing.T, example *program.Example, workerFlags ...string) {
	underLoad(t, example, workerFlags, func(tr *Trial) { tr.KillBroker() })
}

// CutConnection: so it is when only the connections are lost.
func CutConnection(t *testing.T, example *program.Example, workerFlags ...string) {
	underLoad(t, example, workerFlags, func(tr *Trial) {
		tr.CutConnections()
		tr.AwaitServed(2 * load / 3)
		tr.CutConnections()
	})
}

// KilledWorker: what a worker had in hand when it was killed is served by another. The
// document takes 3 s, for which the worker's own limit has to leave room.
func KilledWorker(t *testing.T, example *program.Example, workerFlags ...string) {
	tr := New(t, example, workerFlags...)
	victim := tr.StartWorker()
	const held = "held-1"
	tr.Produce(customers[0], held, "3s")
	await(t, held+" is begun", func() bool { return tr.books.count(held, program.Began) > 0 })
	tr.KillWorker(victim)
	tr.StartWorker()
	tr.ProduceAll(load, takes)
	tr.Settle()
	if began := tr.books.count(held, program.Began); began < 2 {
		t.Errorf("%s was begun %d times: the worker that was killed did not have it", held, began)
	}
}

// ShutdownUnderLoad: a worker that is asked to end finishes what it has in hand, and
// leaves the rest to others. No document is repeated.
func ShutdownUnderLoad(t *testing.T, example *program.Example, workerFlags ...string) {
	underLoad(t, example, workerFlags, func(tr *Trial) {
		tr.workers[0].End()
		tr.StartWorker()
		tr.AwaitServed(2 * load / 3)
		tr.workers[1].End()
	})
}

// underLoad has two worker processes serve a load, and does something to them when
// a third of it was served.
func underLoad(t *testing.T, example *program.Example, workerFlags []string, fault func(*Trial)) {
	t.Helper()
	tr := New(t, example, workerFlags...)
	tr.StartWorker()
	tr.StartWorker()
	produced := make(chan struct{})
	go func() {
		defer close(produced)
		tr.ProduceAll(load, takes)
	}()
	tr.AwaitServed(load / 3)
	fault(tr)
	<-produced
	tr.Settle()
}

// Poison: a document that always fails, at level 1 as any customer's first one,
// is tried three times and given up. A hundred good ones are served meanwhile.
func Poison(t *testing.T, example *program.Example, workerFlags ...string) {
	tr := New(t, example, workerFlags...)
	const poison = "poison-1"
	tr.Produce(customers[0], poison, program.Fails)
	tr.StartWorker()
	tr.ProduceAll(100, takes)
	tr.Settle(poison)
	if failed := tr.books.count(poison, program.Failed); failed != 3 {
		t.Errorf("%s was tried %d times, want 3", poison, failed)
	}
}

// Killer: a document whose worker dies of it, each time, is given up after as many
// deaths.
func Killer(t *testing.T, example *program.Example, deaths int, workerFlags ...string) {
	tr := New(t, example, workerFlags...)
	const killer = "killer-1"
	tr.Produce(customers[0], killer, time.Hour.String())
	for death := range deaths {
		w := tr.StartWorker()
		await(t, fmt.Sprintf("%s is begun %d times", killer, death+1), func() bool {
			return tr.books.count(killer, program.Began) > death
		})
		tr.KillWorker(w)
	}
	tr.StartWorker()
	tr.Settle(killer)
}

// LongDocument: a document that takes as long, which is longer than the queue waits
// for an acknowledgement that nobody asks it to wait for, is begun once.
func LongDocument(t *testing.T, example *program.Example, takes time.Duration, workerFlags ...string) {
	tr := New(t, example, workerFlags...)
	tr.StartWorker()
	tr.StartWorker()
	const long = "long-1"
	tr.Produce(customers[0], long, takes.String())
	tr.Settle()
	if began := tr.books.count(long, program.Began); began != 1 {
		t.Errorf("%s was begun %d times", long, began)
	}
}

// ShutdownInLongDocument: a worker that is asked to end in the middle of a document
// that takes as long finishes it, and nobody else begins with it.
func ShutdownInLongDocument(t *testing.T, example *program.Example, takes time.Duration, workerFlags ...string) {
	tr := New(t, example, workerFlags...)
	worker := tr.StartWorker()
	const long = "long-1"
	tr.Produce(customers[0], long, takes.String())
	await(t, "the document is begun", func() bool { return tr.books.count(long, program.Began) > 0 })
	tr.StartWorker()
	worker.End()
	tr.Settle()
	if began := tr.books.count(long, program.Began); began != 1 {
		t.Errorf("%s was begun %d times", long, began)
	}
}

// soakEnvironment says how long Soak goes on; 10 s where it is not set.
const soakEnvironment = "PRIORITY_SOAK"

// Soak: faults of all kinds come at random times, in any order, with documents that
// fail among those that do not. The books are exact in the end.
func Soak(t *testing.T, example *program.Example, workerFlags ...string) {
	lasts, err := time.ParseDuration(cmp.Or(os.Getenv(soakEnvironment), "10s"))
	if err != nil {
		t.Fatalf("%s: %v", soakEnvironment, err)
	}
	tr := New(t, example, workerFlags...)
	tr.StartWorker()
	tr.StartWorker()
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
			tr.Produce(customer, document, body)
		}
	}()
	faults := []func(){
		tr.KillBroker,
		tr.CutConnections,
		func() {
			tr.KillWorker(tr.Running(random.IntN(2)))
			tr.StartWorker()
		},
		func() {
			tr.Running(random.IntN(2)).End()
			tr.StartWorker()
		},
		func() {
			paused := tr.Running(random.IntN(2))
			paused.Pause()
			time.Sleep(time.Duration(random.IntN(6000)) * time.Millisecond)
			paused.Resume()
			tr.mayRepeat(workersAProcess)
		},
	}
	for end := time.Now().Add(lasts); time.Now().Before(end); {
		time.Sleep(time.Duration(500+random.IntN(2500)) * time.Millisecond)
		faults[random.IntN(len(faults))]()
	}
	close(stop)
	<-produced
	tr.Settle(failing...)
}
