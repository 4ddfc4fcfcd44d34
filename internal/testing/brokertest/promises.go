package brokertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// Queue is a module's queue, as a program uses it. Customers' documents have ids of the
// program's own.
type Queue interface {
	Publish(ctx context.Context, customer, document string) error

	// Work works on documents, two at once, until the context ends, or the broker is lost
	// for good. It returns when what is in hand has ended.
	Work(ctx context.Context, handle func(ctx context.Context, document string) error) error

	Close()
}

// Subject is the module that is tested, and what a test needs to know of its broker.
type Subject struct {
	// Start starts the broker, which keeps what it has confirmed, and returns its address.
	Start func(tb testing.TB) (broker Broker, url string)

	// Open returns the queue, which serves strictly by level. A document that fails is
	// tried again soon.
	Open func(ctx context.Context, url string, store priority.Store) (Queue, error)

	Tries int // of a document that fails each time; 2 at least

	// Expire makes what lost workers have in hand so old that the broker gives it to the
	// worker that starts next. Nil: the broker does so at once.
	Expire func(tb testing.TB, url string)
}

// Main is a module's TestMain. It runs the tests or, in a process that Run has started, a
// worker.
func Main(m *testing.M, s *Subject) {
	if os.Getenv(brokerURL) == "" {
		os.Exit(m.Run())
	}
	if err := s.hold(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(1)
}

const (
	brokerURL = "PRIORITY_TEST_BROKER"
	redisAddr = "PRIORITY_TEST_REDIS"
)

// hold takes documents, says so, and never ends one: its process is killed.
func (s *Subject) hold() error {
	ctx := context.Background()
	store, err := open(redis.NewClient(&redis.Options{Addr: os.Getenv(redisAddr)}))
	if err != nil {
		return err
	}
	queue, err := s.Open(ctx, os.Getenv(brokerURL), store)
	if err != nil {
		return err
	}
	return queue.Work(ctx, func(_ context.Context, document string) error {
		fmt.Println(document)
		select {}
	})
}

func open(client *redis.Client) (*priority.RedisStore, error) {
	return priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 10 * time.Second})
}

// Run tests what every module promises, on its broker.
func Run(t *testing.T, s *Subject) {
	broker, url := s.Start(t)
	counts := redistest.Start(t)
	store, err := open(counts.Client())
	if err != nil {
		t.Fatal(err)
	}
	for _, promise := range []struct {
		name string
		test func(*suite)
	}{
		{"Level", levels},
		{"KilledWorker", killedWorker},
		{"DoneAfterSuccess", doneAfterSuccess},
		{"Poison", poison},
		{"BrokerRestart", brokerRestart},
	} {
		if !t.Run(promise.name, func(t *testing.T) {
			promise.test(&suite{T: t, Subject: s, broker: broker, url: url, counts: counts.Addr, store: store, served: make(map[string]int)})
		}) {
			return // what it has left in the queue would disturb the next
		}
	}
}

// levels: the level reaches the broker, which serves it first.
func levels(t *suite) {
	const flood = 60
	t.publish("flood", flood)
	t.publish("clinic", 1)
	t.work(nil)
	t.awaitServed("flood", flood)
	t.awaitServed("clinic", 1)
	t.stop()
	if place := slices.Index(t.order, "clinic-0"); place >= flood/2 {
		t.Errorf("another customer's first document is served after %d of a flood's %d", place, flood)
	}
}

// killedWorker: what a worker had in hand is served by another, and counts once.
func killedWorker(t *suite) {
	t.publish("killed", 20)
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	output, err := os.Create(t.TempDir() + "/output")
	if err != nil {
		t.Fatal(err)
	}
	defer output.Close()
	command := exec.Command(executable)
	command.Env = append(os.Environ(), brokerURL+"="+t.url, redisAddr+"="+t.counts)
	command.Stdout, command.Stderr = output, os.Stderr
	wait := redistest.StartProgram(t, command)
	var held string
	t.await("a worker has documents in hand", func() bool {
		all, _ := os.ReadFile(output.Name())
		var whole bool
		held, _, whole = strings.Cut(string(all), "\n")
		return whole
	})
	redistest.KillProgram(command)
	_ = wait()
	if t.Expire != nil {
		t.Expire(t, t.url)
	}
	t.work(nil)
	t.awaitServed("killed", 20)
	t.countsOnce("killed", 20)
	t.stop()
	if t.served[held] != 1 {
		t.Errorf("%s, which the killed worker had, is served %d times", held, t.served[held])
	}
}

// doneAfterSuccess: a document that fails is pending until it has succeeded, and its
// second try counts nothing.
func doneAfterSuccess(t *suite) {
	t.publish("twice", 1)
	var pending []int64
	t.work(func(string) error {
		if pending = append(pending, t.peek("twice").Pending); len(pending) == 1 {
			return errors.New("fails once")
		}
		return nil
	})
	t.awaitServed("twice", 1)
	t.countsOnce("twice", 1)
	t.stop()
	if !slices.Equal(pending, []int64{1, 1}) {
		t.Errorf("%d are pending in the first and second try, want 1 and 1", pending)
	}
}

// poison: a document that always fails is given up, and is not pending any more. Others
// are served meanwhile.
func poison(t *suite) {
	t.publish("poison", 1)
	t.publish("good", 10)
	tries := 0
	t.work(func(document string) error {
		if document == "poison-0" {
			tries++
			return errors.New("fails each time")
		}
		return nil
	})
	t.awaitServed("good", 10)
	t.await("it is given up", func() bool { return t.peek("poison").Pending == 0 })
	t.stop()
	if tries != t.Tries || t.served["poison-0"] != 0 {
		t.Errorf("tried %d times, want %d", tries, t.Tries)
	}
}

// brokerRestart: a broker that crashes and comes back loses nothing. The module may say that
// the broker is lost; then the program opens its queue again.
func brokerRestart(t *suite) {
	t.publish("crash", 60)
	t.work(func(string) error {
		time.Sleep(10 * time.Millisecond) // the work: some is left when the broker crashes
		return nil
	})
	t.await("a third is served", func() bool { return t.number("crash") >= 20 })
	t.broker.Kill()
	t.broker.Restart()
	t.publish("after", 10)
	t.await("workers go on", func() bool { return t.number("after") >= 5 })
	if t.Expire != nil { // what was on its way between the broker and a worker
		t.stop()
		t.Expire(t, t.url)
		t.work(nil)
	}
	t.awaitServed("crash", 60)
	t.awaitServed("after", 10)
}

// suite is a promise that is tested.
type suite struct {
	*testing.T
	*Subject
	broker Broker
	url    string
	counts string // the address of the store's Redis
	store  priority.Store
	stop   func() // of the worker

	mutex  sync.Mutex
	served map[string]int // how often, by document
	order  []string
}

// publish puts a customer's documents into the queue, and retries until it works.
func (t *suite) publish(customer string, documents int) {
	t.Helper()
	var queue Queue
	var err error
	defer func() {
		if err != nil {
			t.Log(err)
		}
	}()
	for number := range documents {
		t.await("a document is published", func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if queue == nil {
				if queue, err = t.Open(ctx, t.url, t.store); err != nil {
					queue = nil
					return false
				}
			}
			if err = queue.Publish(ctx, customer, fmt.Sprint(customer, "-", number)); err != nil {
				queue.Close()
				queue = nil
			}
			return err == nil
		})
	}
	queue.Close()
}

// work has a worker serve documents, one at a time, until stop or the test's end.
func (t *suite) work(process func(document string) error) {
	handle := func(_ context.Context, document string) error {
		t.mutex.Lock()
		defer t.mutex.Unlock()
		if process != nil {
			if err := process(document); err != nil {
				return err
			}
		}
		t.served[document]++
		t.order = append(t.order, document)
		return nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	var worker sync.WaitGroup
	worker.Go(func() {
		for ctx.Err() == nil {
			queue, err := t.Open(ctx, t.url, t.store)
			if err == nil {
				err = queue.Work(ctx, handle)
				queue.Close()
			}
			if err != nil && ctx.Err() == nil {
				time.Sleep(50 * time.Millisecond) // the broker is away
			}
		}
	})
	t.stop = sync.OnceFunc(func() {
		cancel()
		worker.Wait()
	})
	t.Cleanup(t.stop)
}

// awaitServed returns when all of a customer's documents were served, and none is pending.
func (t *suite) awaitServed(customer string, documents int) {
	t.Helper()
	t.await(customer+"'s documents are served", func() bool { return t.number(customer) >= documents })
	t.await(customer+" has nothing pending", func() bool { return t.peek(customer).Pending == 0 })
}

func (t *suite) countsOnce(customer string, documents int) {
	t.Helper()
	if counted := math.Round(t.peek(customer).Recent); counted != float64(documents) {
		t.Errorf("%s has sent %d documents, and %v count", customer, documents, counted)
	}
}

// number is how many of a customer's documents were served.
func (t *suite) number(customer string) (n int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for document := range t.served {
		if strings.HasPrefix(document, customer+"-") {
			n++
		}
	}
	return n
}

func (t *suite) peek(customer string) priority.State {
	state, err := t.store.Peek(context.Background(), customer)
	if err != nil {
		t.Error(err)
	}
	return state
}

// await is redistest.Await with the patience that a broker's start takes.
func (t *suite) await(what string, condition func() bool) {
	t.Helper()
	for limit := time.Now().Add(startLimit); !condition(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("never happened: %s", what)
		}
	}
}
