package trial

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
)

// policies are numbers of levels to test a queue with: one, two, fewer and more
// than a queue has priorities.
var policies = []priority.Level{1, 2, 3, 9, 20}

// Order fails the test unless documents come out by level and, within a level, as
// they went in. The queue has so many classes of levels; 0: one a level.
func Order(t *testing.T, example *program.Example, url string, classes priority.Level) {
	for _, last := range policies {
		store := &givenLevels{last: last}
		var want []string
		for _, name := range []string{"first", "second"} { // the worst order: the last level's come first
			for level := last; level >= 1; level-- {
				want = append(want, store.document(level, name))
			}
		}
		distinguished := classes
		if classes == 0 {
			distinguished = last
		}
		served := serveInOrder(t, example, url, store, want, nil)
		slices.SortStableFunc(want, func(a, b string) int {
			return int(queue.Class(store.levels[a], last, distinguished) - queue.Class(store.levels[b], last, distinguished))
		})
		if !slices.Equal(served, want) {
			t.Errorf("a policy of %d levels: served\n%q\nwant\n%q", last, served, want)
		}
	}
}

// Overtaking fails the test unless an urgent document that arrives while another is
// worked on is served before those that have waited for longer. It is not where a
// consumer has fetched them ahead.
func Overtaking(t *testing.T, example *program.Example, url string) {
	store := &givenLevels{last: 9}
	var waiting []string
	for _, name := range []string{"first", "waiting", "latest"} {
		waiting = append(waiting, store.document(9, name))
	}
	urgent := store.document(1, "urgent")
	served := serveInOrder(t, example, url, store, waiting, func(queue program.Queue, document string) {
		if document == waiting[0] {
			if err := queue.Produce(t.Context(), "customer", urgent, nil); err != nil {
				t.Error(err)
			}
		}
	})
	if want := []string{waiting[0], urgent, waiting[1], waiting[2]}; !slices.Equal(served, want) {
		t.Errorf("served %q, want %q", served, want)
	}
}

// serveInOrder produces the documents, and then has one worker serve all that there
// are, also those that during adds. It returns them in the order of service.
func serveInOrder(t *testing.T, example *program.Example, url string, store *givenLevels, documents []string, during func(program.Queue, string)) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	queue, err := example.Open(ctx, &program.Config{
		URL: url, Store: store, Name: fmt.Sprintf("order-%d-%p", store.last, store), Workers: 1, Limit: time.Minute,
		Backoff: []time.Duration{time.Second}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer queue.Close()
	defer func() {
		if err := queue.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for _, document := range documents {
		if err := queue.Produce(ctx, "customer", document, nil); err != nil {
			t.Fatal(err)
		}
	}
	working, finish := context.WithCancel(ctx)
	defer finish()
	var mutex sync.Mutex
	var served []string
	err = queue.Work(working, func(_ context.Context, _, document string, _ []byte) error {
		if during != nil {
			during(queue, document)
		}
		mutex.Lock()
		defer mutex.Unlock()
		served = append(served, document)
		if len(served) == len(store.levels) {
			finish()
		}
		return nil
	})
	if err != nil || ctx.Err() != nil {
		t.Errorf("work: %v, %v", err, ctx.Err())
	}
	return served
}

// givenLevels is a store that gives each document the level that the test has said.
type givenLevels struct {
	memory.Store
	last   priority.Level
	levels map[string]priority.Level
}

// document returns a document's name, and remembers its level.
func (g *givenLevels) document(level priority.Level, name string) string {
	if g.levels == nil {
		g.levels = make(map[string]priority.Level)
	}
	document := fmt.Sprintf("%s-of-level-%d", name, level)
	g.levels[document] = level
	return document
}

func (g *givenLevels) Last() priority.Level { return g.last }

func (g *givenLevels) Submit(_ context.Context, _, document string) (priority.Decision, error) {
	return priority.Decision{Level: g.levels[document]}, nil
}

func (g *givenLevels) Done(context.Context, string, string, time.Duration) error { return nil }
