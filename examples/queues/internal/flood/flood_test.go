package flood

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
)

// The story, told in virtual time: with levels the steady customers wait for hardly
// more than a document that is under way, without them for the whole flood.
func TestLevelsKeepTheSteadyCustomersFromWaiting(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		with := tell(t, new(memory.Store))
		oneLevel, err := memory.New(&memory.Options{Policy: priority.Policy{Thresholds: []int64{}}})
		if err != nil {
			t.Fatal(err)
		}
		without := tell(t, oneLevel)

		for _, customer := range steady {
			if waited := of(with, customer); len(waited) != 30 || waited[len(waited)-1] > 2*takes {
				t.Errorf("%s: %d documents, the longest wait is %v", customer, len(waited), waited[len(waited)-1])
			}
			if waited := of(without, customer); len(waited) != 30 || waited[len(waited)-1] < 1500*time.Millisecond {
				t.Errorf("%s without levels: %d documents, the longest wait is %v", customer, len(waited), waited[len(waited)-1])
			}
		}
		if waited := of(with, flooding); len(waited) != floodSize {
			t.Errorf("%d documents of the flood", len(waited))
		}

		var table strings.Builder
		Table(&table, with, without)
		const want = `                      with levels            without levels
customer  documents   half wait   longest    half wait   longest
`
		if !strings.HasPrefix(table.String(), want) || strings.Count(table.String(), "\n") != 8 {
			t.Errorf("the table is\n%s", table.String())
		}
		if lines := strings.Count(string(CSV(with, without)), "\n"); lines != 1+len(with)+len(without) {
			t.Errorf("%d lines of %d documents", lines, len(with)+len(without))
		}
	})
}

// Of two floods, the second waits for all of the first, unless the queue has levels for
// them to take turns in.
func TestFloodsTakeTurns(t *testing.T) {
	for turns, want := range map[int][2]int{0: {400, 800}, 13: {300, 500}} {
		store, err := memory.New(&memory.Options{Policy: priority.Policy{Turns: turns}})
		if err != nil {
			t.Fatal(err)
		}
		queue := newOrdered(store)
		for _, customer := range []string{"archive", "museum"} {
			for number := range 600 {
				if err := queue.Produce(t.Context(), customer, fmt.Sprint(number), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		var before, served int // of archive's documents, when half of museum's are served
		for served < 300 {
			document, _ := queue.next()
			if document[0] == "museum" {
				served++
			} else {
				before++
			}
		}
		if before < want[0] || before > want[1] {
			t.Errorf("with %d turns %d documents of the first flood are served before half of the second, want %d to %d", turns, before, want[0], want[1])
		}
	}
}

// A queue that fails ends the story with its error.
func TestAFailedProducerEndsTheStory(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		queue := newOrdered(new(memory.Store))
		queue.refuses = errors.New("the queue is full")
		if _, err := Run(t.Context(), queue); !errors.Is(err, queue.refuses) {
			t.Errorf("%v", err)
		}
	})
}

func tell(t *testing.T, store priority.Store) []Wait {
	t.Helper()
	waits, err := Run(t.Context(), newOrdered(store))
	if err != nil {
		t.Fatal(err)
	}
	return waits
}

// ordered is a queue in memory: strictly by level, and in order within one.
type ordered struct {
	store   priority.Store
	refuses error

	mutex   sync.Mutex
	waiting [][][2]string // by level: customers and documents
}

func newOrdered(store priority.Store) *ordered {
	return &ordered{store: store, waiting: make([][][2]string, store.Last())}
}

func (o *ordered) Produce(ctx context.Context, customer, document string, _ []byte) error {
	decision, err := o.store.Submit(ctx, customer, document, 0)
	if err != nil || o.refuses != nil {
		return errors.Join(err, o.refuses)
	}
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.waiting[decision.Level-1] = append(o.waiting[decision.Level-1], [2]string{customer, document})
	return nil
}

func (o *ordered) Work(ctx context.Context, process func(ctx context.Context, customer, document string, body []byte) error) error {
	var workers sync.WaitGroup
	for range Workers {
		workers.Go(func() {
			for ctx.Err() == nil {
				next, ok := o.next()
				if !ok {
					time.Sleep(time.Millisecond)
					continue
				}
				_ = process(ctx, next[0], next[1], nil)
				_ = o.store.Done(ctx, next[0], next[1], takes)
			}
		})
	}
	workers.Wait()
	return nil
}

func (o *ordered) next() (document [2]string, ok bool) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	for level, documents := range o.waiting {
		if len(documents) > 0 {
			o.waiting[level] = documents[1:]
			return documents[0], true
		}
	}
	return document, false
}
