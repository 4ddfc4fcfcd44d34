package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/queue"
)

// These promises need no worker process: the test itself produces and works.

// bench opens a queue on the shared server, named after the promise and the store's
// number of levels. A document may fail three times, and one is worked on at a time.
func (s *Subject) bench(t *testing.T, store *Store, change func(*program.Config)) *Bench {
	t.Helper()
	return s.benchAt(t, s.Server(t), store, change)
}

func (s *Subject) benchAt(t *testing.T, url string, store *Store, change func(*program.Config)) *Bench {
	t.Helper()
	example, config := s.parse(t, fmt.Sprint(queueOf(t), store.Levels))
	config.URL, config.Store, config.Workers, config.Limit, config.Backoff = url, store, 1, time.Minute, backoff
	if change != nil {
		change(config)
	}
	opened, err := example.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = opened.Close() })
	return NewBench(t, opened, store)
}

var backoff = []time.Duration{100 * time.Millisecond, 200 * time.Millisecond}

// order: documents come out by level and, within a level, as they went in, for policies
// of one level, two, nine, and of nine and 13 turns.
func order(t *testing.T, s *Subject) {
	for _, last := range []priority.Level{1, 2, 3, 9, 22} {
		store := &Store{Levels: last}
		b := s.bench(t, store, nil)
		var want []string
		for _, name := range []string{"first", "second"} { // the worst order: the last level's come first
			for level := last; level >= 1; level-- {
				document := fmt.Sprintf("%s-of-level-%d", name, level)
				b.SendAt(level, document)
				want = append(want, document)
			}
		}
		classes := s.Classes
		if classes == 0 {
			classes = last
		}
		slices.SortStableFunc(want, func(a, b string) int {
			return int(queue.Class(store.levels[a], last, classes) - queue.Class(store.levels[b], last, classes))
		})
		stop := b.Serve(nil)
		b.AwaitServed(want...)
		stop()
		if served := b.Served(); !slices.Equal(served, want) {
			t.Errorf("a policy of %d levels: served\n%q\nwant\n%q", last, served, want)
		}
	}
}

// overtaking: an urgent document that arrives while another is worked on is served
// before those that have waited for longer. It is not if a consumer fetches ahead.
func overtaking(t *testing.T, s *Subject) {
	b := s.bench(t, new(Store), nil)
	b.SendAt(9, "first", "waiting", "latest")
	b.Serve(func(_ context.Context, document string) error {
		if document == "first" {
			b.SendAt(1, "urgent")
		}
		return nil
	})
	want := []string{"first", "urgent", "waiting", "latest"}
	b.AwaitServed(want...)
	if served := b.Served(); !slices.Equal(served, want) {
		t.Errorf("served %q, want %q", served, want)
	}
}

// comeback: a document that failed comes back ahead of the many that wait at a later
// level. They last for longer than the queue takes to bring it back.
func comeback(t *testing.T, s *Subject) {
	b := s.bench(t, new(Store), nil)
	b.SendAt(1, "urgent")
	documents := []string{"urgent"}
	for number := range 400 {
		documents = append(documents, fmt.Sprint(number))
	}
	b.SendAt(9, documents[1:]...)
	failed := false
	b.Serve(func(_ context.Context, document string) error {
		if document == "urgent" && !failed {
			failed = true
			return errors.New("fails once")
		}
		time.Sleep(20 * time.Millisecond)
		return nil
	})
	Await(t, "the document is back", func() bool { return slices.Contains(b.Served(), "urgent") })
	if served := b.Served(); len(served) == len(documents) {
		t.Error("it was the last one to be served")
	}
}

// byWeight: while two levels have work, one in ten is of the last one: 20 of 200, give
// or take 4. That it is none, or 80, is as good as impossible.
func byWeight(t *testing.T, s *Subject) {
	b := s.bench(t, new(Store), nil)
	const each = 200
	for number := range each {
		b.SendAt(9, fmt.Sprint("9-", number))
		b.SendAt(1, fmt.Sprint("1-", number))
	}
	b.Serve(nil)
	Await(t, "half of them are served", func() bool { return len(b.Served()) >= each })
	ofLast := 0
	for _, document := range b.Served()[:each] {
		if strings.HasPrefix(document, "9-") {
			ofLast++
		}
	}
	if ofLast < 1 || ofLast > 80 {
		t.Errorf("of the first %d documents %d are of the last level", each, ofLast)
	}
}

func panics(t *testing.T, s *Subject) {
	b := s.bench(t, new(Store), nil)
	b.Send("panics", "good")
	var tries atomic.Int32
	b.Serve(func(_ context.Context, document string) error {
		if document == "panics" {
			tries.Add(1)
			panic(strings.Repeat("of this document \xff ", 1<<13)) // more than headers take, and no text
		}
		return nil
	})
	b.AwaitServed("good")
	b.AwaitDead("panics")
	b.AwaitNothingPending()
	if tries.Load() != 3 {
		t.Errorf("tried %d times, want 3", tries.Load())
	}
}

func overLimit(t *testing.T, s *Subject) {
	log := new(Log)
	b := s.bench(t, new(Store), func(c *program.Config) {
		c.Limit, c.Logger = 50*time.Millisecond, slog.New(slog.NewTextHandler(log, nil))
	})
	b.Send("endless", "good")
	var tries atomic.Int32
	b.Serve(func(ctx context.Context, document string) error {
		if document == "good" {
			return nil
		}
		tries.Add(1)
		<-ctx.Done()
		return ctx.Err()
	})
	b.AwaitServed("good")
	b.AwaitDead("endless")
	b.AwaitNothingPending()
	log.Await(t, context.DeadlineExceeded.Error())
	if tries.Load() != 3 {
		t.Errorf("tried %d times, want 3", tries.Load())
	}
}

func storeThatErrs(t *testing.T, s *Subject) {
	away := errors.New("the store is away")
	b := s.bench(t, &Store{OnSubmit: func(_, document string) error {
		if document == "refused" {
			return away
		}
		return nil
	}}, nil)
	if err := b.queue.Produce(t.Context(), "acme", "refused", nil); !errors.Is(err, away) {
		t.Errorf("error %v", err)
	}
	b.Send("next")
	b.Serve(nil)
	b.AwaitServed("next")
}

// names: customers, ids and bodies are any bytes, and two customers may have the same id.
// What a queue cannot carry is refused before it is counted.
func names(t *testing.T, s *Subject) {
	hostile := []string{
		"a/b", "%2F", " padded ", "two\r\nlines: 1", `"quoted" 'twice'\`, `\u0000`, "{a}:%7D", "*.>", "- 1 x", "🗎 Ж é", "<&>\u2028",
		"\x7f\x01", "\x00", "caf\xe9", strings.Repeat("\n", 512), strings.Repeat("ü", 256),
	}
	b := s.bench(t, new(Store), func(c *program.Config) { c.Workers = 4 })
	more := "\x00\xff"
	if s.Text {
		more = ""
	}
	var want []string
	for _, customer := range hostile {
		for _, document := range hostile {
			err := b.queue.Produce(t.Context(), customer, document, []byte(customer+more))
			refused := s.Refuses != nil && (s.Refuses(customer) || s.Refuses(document))
			if refused != (err != nil) {
				t.Errorf("%q of %q: error %v", document, customer, err)
			}
			if !refused {
				want = append(want, document)
			}
		}
	}
	b.Process(func(_ context.Context, customer, document string, body []byte) error {
		if string(body) != customer+more {
			t.Errorf("%q of %q has the body %q", document, customer, body)
		}
		return nil
	})
	b.AwaitServed(want...)
	b.AwaitNothingPending(hostile...)
}

// outage: a queue whose server goes away keeps nobody, and goes on when it is back.
func outage(t *testing.T, s *Subject) {
	own := s.ownServer(t)
	b := s.benchAt(t, own.URL, new(Store), nil)
	own.Kill()
	b.Serve(nil)() // a shutdown does not wait for a server
	impatient, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := b.queue.Produce(impatient, "acme", "impatient", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("produce: %v", err)
	}
	produced := make(chan error)
	go func() { produced <- b.queue.Produce(t.Context(), "acme", "patient", nil) }()
	b.Serve(nil)
	if err := own.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-produced; err != nil {
		t.Fatal(err)
	}
	Await(t, "the document is served", func() bool { return slices.Contains(b.Served(), "patient") })
}

func demonstration(t *testing.T, s *Subject) {
	var out strings.Builder
	flags := append([]string{"-url", s.Server(t)}, s.flags(t, "demonstration")...)
	if err := program.Run(t.Context(), s.Example(), flags, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{"bakery +30 ", "clinic +30 ", "dentist +30 ", "archive +400 ", "In .* level 1 is .*, and level 9 is .*"} {
		if !regexp.MustCompile("(?m)^" + row).MatchString(out.String()) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
}
