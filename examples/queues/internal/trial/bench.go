package trial

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/memory"
)

// Store counts in memory, and gives the levels and the errors that a test says.
type Store struct {
	memory.Store
	Levels   priority.Level                            // how many; 0: as many as the default policy has
	OnSubmit func(customer, document string) error     // nil: nothing
	OnDone   func(document string, took time.Duration) // nil: nothing

	mutex  sync.Mutex
	levels map[string]priority.Level // by document
}

// Last returns the last level.
func (s *Store) Last() priority.Level {
	if s.Levels > 0 {
		return s.Levels
	}
	return s.Store.Last()
}

// Submit counts a document.
func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	if s.OnSubmit != nil {
		if err := s.OnSubmit(customer, document); err != nil {
			return priority.Decision{}, err
		}
	}
	decision, err := s.Store.Submit(ctx, customer, document, 0)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if level := s.levels[document]; level > 0 {
		decision.Level = level
	}
	return decision, err
}

// Done says that a document is not pending any more.
func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) error {
	if s.OnDone != nil {
		s.OnDone(document, took)
	}
	return s.Store.Done(ctx, customer, document, took)
}

// SetLevel says which level a document gets.
func (s *Store) SetLevel(document string, level priority.Level) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.levels == nil {
		s.levels = make(map[string]priority.Level)
	}
	s.levels[document] = level
}

// Queue is what a Bench needs of a program.Queue.
type Queue interface {
	Produce(ctx context.Context, customer, document string, body []byte) error
	Work(ctx context.Context, process program.Process) error
	Dead(ctx context.Context) ([]string, error)
}

// Bench has a queue work in the test's own process.
type Bench struct {
	Store *Store

	tb    testing.TB
	queue Queue

	mutex  sync.Mutex
	served []string
}

// NewBench returns a bench for a queue with the store.
func NewBench(tb testing.TB, queue Queue, store *Store) *Bench {
	return &Bench{Store: store, tb: tb, queue: queue}
}

// Send produces documents of the customer acme.
func (b *Bench) Send(documents ...string) {
	b.tb.Helper()
	ctx, cancel := context.WithTimeout(b.tb.Context(), patience)
	defer cancel()
	for _, document := range documents {
		if err := b.queue.Produce(ctx, "acme", document, nil); err != nil {
			b.tb.Fatal(err)
		}
	}
}

// SendAt produces documents of a level.
func (b *Bench) SendAt(level priority.Level, documents ...string) {
	b.tb.Helper()
	for _, document := range documents {
		b.Store.SetLevel(document, level)
	}
	b.Send(documents...)
}

// Serve has process work on documents until stop is called, or the test ends. nil:
// each is served at once.
func (b *Bench) Serve(process func(ctx context.Context, document string) error) (stop func()) {
	b.tb.Helper()
	return b.Process(func(ctx context.Context, _, document string, _ []byte) error {
		if process == nil {
			return nil
		}
		return process(ctx, document)
	})
}

// Process is Serve for a process that looks at all of a document.
func (b *Bench) Process(process program.Process) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.tb.Context()))
	worked := make(chan error, 1)
	go func() {
		worked <- b.queue.Work(ctx, func(ctx context.Context, customer, document string, body []byte) error {
			if err := process(ctx, customer, document, body); err != nil {
				return err
			}
			b.mutex.Lock()
			defer b.mutex.Unlock()
			b.served = append(b.served, document)
			return nil
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-worked; err != nil {
			b.tb.Errorf("work: %v", err)
		}
	})
	b.tb.Cleanup(stop)
	return stop
}

// Served returns what was served until now, in that order.
func (b *Bench) Served() []string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return slices.Clone(b.served)
}

// AwaitServed returns when just these documents were served, in any order.
func (b *Bench) AwaitServed(documents ...string) {
	b.tb.Helper()
	Await(b.tb, fmt.Sprint(len(documents), " documents are served"), func() bool { return len(b.Served()) >= len(documents) })
	if got := b.Served(); !slices.Equal(sorted(got), sorted(documents)) {
		b.tb.Errorf("served %q, want %q", got, documents)
	}
}

// AwaitDead returns when just these documents were given up.
func (b *Bench) AwaitDead(documents ...string) {
	b.tb.Helper()
	awaitDead(b.tb, b.queue, documents...)
}

func awaitDead(tb testing.TB, queue Queue, documents ...string) {
	tb.Helper()
	Await(tb, fmt.Sprintf("%q are given up", documents), func() bool {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		dead, err := queue.Dead(ctx) // an error: the server may be on its way up
		return err == nil && slices.Equal(slices.Compact(sorted(dead)), sorted(documents))
	})
}

// AwaitNothingPending returns when Done was said of all documents of the customers.
// None: of acme.
func (b *Bench) AwaitNothingPending(customers ...string) {
	b.tb.Helper()
	if len(customers) == 0 {
		customers = []string{"acme"}
	}
	awaitNothingPending(b.tb, b.Store, customers...)
}

func awaitNothingPending(tb testing.TB, store priority.Store, customers ...string) {
	tb.Helper()
	for _, customer := range customers {
		Await(tb, fmt.Sprintf("nothing of %q is pending", customer), func() bool {
			now, err := store.Peek(tb.Context(), customer)
			return err == nil && now.Pending == 0
		})
	}
}

// patience is how long anything may take on a busy machine before the trial fails.
// asynq takes two minutes to notice that a worker is gone.
const patience = 3 * time.Minute

// Await polls a condition until it holds, and fails the test if it does not.
func Await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("waited %v in vain: %s", patience, what)
		}
	}
}

func sorted(documents []string) []string { return slices.Sorted(slices.Values(documents)) }
