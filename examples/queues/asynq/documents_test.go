package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/asynqredis"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// What is in the archive is no obstacle.
func TestADocumentThatWasGivenUpCanBeSentAgain(t *testing.T) {
	t.Parallel()
	q := start(t, nil)
	fails := q.serveOrFail()
	q.Send("invoice-1")
	q.AwaitDead("invoice-1")
	fails.Store(false)
	q.Send("invoice-1")
	q.AwaitServed("invoice-1")
}

func TestGivenUpDocumentsAreRetried(t *testing.T) {
	t.Parallel()
	q := start(t, func(r *asynqredis.Redis) { r.Workers = 20 })
	fails := q.serveOrFail()
	var documents []string
	for number := range 120 { // more than a page of an archive
		documents = append(documents, fmt.Sprint("invoice-", number))
	}
	q.SendAt(9, documents...)
	q.AwaitDead(documents...)
	q.AwaitNothingPending()
	fails.Store(false)
	letters, err := q.Letters()
	if err != nil {
		t.Fatal(err)
	}
	dead, err := letters.Dead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range dead {
		if letter.Customer != "acme" || letter.Reason != "fails" || letter.Tries != 2 || time.Since(letter.At) > time.Hour {
			t.Errorf("%+v", letter)
		}
		if err := letters.Retry(t.Context(), letter); err != nil {
			t.Error(err)
		}
	}
	q.AwaitServed(documents...)
	q.AwaitDead()
	q.AwaitNothingPending()
}

func TestDoneIsSaidWhenAsynqWillNotTryAgain(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		err   error
		waits bool // for its next try
		dead  bool
	}{
		"a failure":  {errors.New("fails"), true, false},
		"SkipRetry":  {fmt.Errorf("not a document at all: %w", asynq.SkipRetry), false, true},
		"RevokeTask": {fmt.Errorf("not wanted: %w", asynq.RevokeTask), false, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := start(t, func(r *asynqredis.Redis) { r.Backoff = []time.Duration{time.Hour} })
			var byWorker atomic.Bool // Settle knows no time
			q.Bench.Store.OnDone = func(_ string, took time.Duration) { byWorker.Store(byWorker.Load() || took > 0) }
			q.Serve(func(context.Context, string) error { return c.err })
			q.Send("invoice-1")
			if c.waits {
				trial.Await(t, "it waits for its next try", func() bool { return q.info(1).Retry == 1 })
				if pending := q.pending(); pending != 1 {
					t.Errorf("%d pending", pending)
				}
				if _, err := q.inspector.RunAllRetryTasks(q.queue(1)); err != nil { // its back-off is over
					t.Fatal(err)
				}
			}
			if c.waits || c.dead {
				q.AwaitDead("invoice-1")
			}
			q.AwaitNothingPending()
			if !byWorker.Load() {
				t.Error("the worker has not said Done")
			}
		})
	}
}

// It is kept as text, and does not hold up the next try. asynq can keep nothing else.
func TestAnErrorOfAnyTextIsKept(t *testing.T) {
	t.Parallel()
	q := start(t, nil)
	var tries atomic.Int32
	q.Serve(func(_ context.Context, document string) error {
		tries.Add(1)
		if document == "panics" {
			panic("no number: \xff\xfe")
		}
		return errors.New("no number: \xff\xfe")
	})
	q.Send("fails", "panics")
	q.AwaitDead("fails", "panics")
	letters, err := q.Letters()
	if err != nil {
		t.Fatal(err)
	}
	dead, err := letters.Dead(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, letter := range dead {
		if !strings.HasSuffix(letter.Reason, "no number: \uFFFD") {
			t.Errorf("%s: the archive says %q", letter.Document, letter.Reason)
		}
	}
	if tries.Load() != 4 {
		t.Errorf("%d tries of 2 documents, want 2 each", tries.Load())
	}
	q.AwaitNothingPending()
}

// asynq itself archives it: no worker says Done.
func TestADocumentThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	q := start(t, func(r *asynqredis.Redis) { r.Backoff = []time.Duration{time.Hour} })
	q.Send("kills")
	for try := range 2 {
		q.loseWorker()
		recovered := q.Serve(nil)
		redistest.Await(t, "asynq sees that the worker is gone", func() bool { return q.info(1).Active == 0 })
		if try == 1 {
			q.AwaitDead("kills")
			q.AwaitNothingPending()
			return
		}
		recovered()
		if _, err := q.inspector.RunAllRetryTasks(q.queue(1)); err != nil { // its back-off is over
			t.Fatal(err)
		}
	}
}

// asynq's lease ends after 30 s, and a worker finds such documents when it starts.
func TestADocumentIsServedAgainAfterALongOutage(t *testing.T) {
	t.Parallel()
	q := start(t, nil)
	q.Send("invoice-1")
	var began atomic.Int32
	ended := make(chan struct{})
	q.Serve(func(ctx context.Context, _ string) error {
		if began.Add(1) == 1 {
			defer close(ended)
			q.server.Kill()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})
	<-ended
	q.server.Restart()
	trial.Await(t, "the client has seen that Redis is back", func() bool { return q.Redis.Redis.Ping(t.Context()).Err() == nil })
	expire(t, "redis://"+q.server.Addr, q.Name)
	q.Serve(nil)
	q.AwaitServed("invoice-1")
	q.AwaitNothingPending()
}

// Nothing moves until there is room, in neither direction.
func TestAFullRedisLosesNoDocument(t *testing.T) {
	t.Parallel()
	full := make(chan string, 1000)
	q := start(t, func(r *asynqredis.Redis) {
		r.Logger = slog.New(onEach(func(record slog.Record) {
			if text := record.Message + attributes(record); strings.Contains(text, "OOM") {
				select {
				case full <- record.Message:
				default:
				}
			}
		}))
	})
	q.Send("invoice-1")
	setMemory := func(most string) {
		if err := q.Redis.Redis.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
			t.Error(err)
		}
	}
	setMemory("1")
	q.Serve(nil)
	produced := make(chan error)
	go func() { produced <- q.Produce(t.Context(), "acme", "invoice-2", nil) }()
	producer, consumer := false, false
	for !producer || !consumer {
		message := <-full
		producer = producer || message == "trying again"
		consumer = consumer || strings.HasPrefix(message, "Dequeue error")
	}
	q.AwaitServed()
	setMemory("0")
	if err := <-produced; err != nil {
		t.Error(err)
	}
	q.AwaitServed("invoice-1", "invoice-2")
}

func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	t.Parallel()
	client := redistest.Find(t, "redis-cli", "redis-tools")
	q := start(t, func(r *asynqredis.Redis) { r.Backoff = []time.Duration{time.Hour} })
	q.SendAt(9, "dead", "failed")
	finish := q.Serve(func(_ context.Context, document string) error {
		if document == "dead" {
			return asynq.SkipRetry
		}
		return errors.New("fails")
	})
	q.AwaitDead("dead")
	redistest.Await(t, "the other waits for its next try", func() bool { return q.info(9).Retry == 1 })
	finish()
	q.SendAt(9, "waits", "waits", "waits")

	page := markdown.Read(t, "../../../docs/queues/asynq.md")
	_, port, _ := strings.Cut(q.server.Addr, ":")
	var said []string
	for _, line := range regexp.MustCompile(`(?m)^redis-cli (.*)$`).FindAllStringSubmatch(string(page), -1) {
		output, err := exec.Command("sh", "-c", client+" -p "+port+" "+line[1]).CombinedOutput()
		if err != nil {
			t.Errorf("%s: %v\n%s", line[0], err, output)
		}
		said = append(said, strings.TrimSpace(string(output)))
	}
	if want := []string{"3", "0", "1", "1"}; !slices.Equal(said, want) {
		t.Errorf("the page's lines say %q, want %q", said, want)
	}
}

// opened is the program's queue on a Redis of its own.
type opened struct {
	*asynqredis.Queue
	*trial.Bench
	t         *testing.T
	server    *redistest.Server
	inspector *asynq.Inspector
}

// start opens a queue. Documents have two tries.
func start(t *testing.T, change func(*asynqredis.Redis)) *opened {
	t.Helper()
	q := &opened{t: t, server: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")}
	store := new(trial.Store)
	r := &asynqredis.Redis{
		Config: &program.Config{
			Store: store, Name: "documents", Workers: 4, Limit: time.Minute, Backoff: []time.Duration{time.Millisecond},
			Logger: slog.New(slog.DiscardHandler),
		},
		Redis: q.server.Client(), Check: 20 * time.Millisecond,
	}
	if change != nil {
		change(r)
	}
	opened, err := open(r)
	if err != nil {
		t.Fatal(err)
	}
	q.Queue = opened.(*asynqredis.Queue)
	q.Bench = trial.NewBench(t, q.Queue, store)
	q.inspector = asynq.NewInspectorFromRedisClient(r.Redis)
	return q
}

// serveOrFail works, and has all documents fail until it is told otherwise.
func (q *opened) serveOrFail() (fails *atomic.Bool) {
	fails = new(atomic.Bool)
	fails.Store(true)
	q.Serve(func(context.Context, string) error {
		if fails.Load() {
			return errors.New("fails")
		}
		return nil
	})
	return fails
}

func (q *opened) queue(level priority.Level) string {
	return queue.Name(q.Name, level, q.Bench.Store.Last())
}

func (q *opened) info(level priority.Level) *asynq.QueueInfo {
	q.t.Helper()
	info, err := q.inspector.GetQueueInfo(q.queue(level))
	if err != nil {
		q.t.Fatal(err)
	}
	return info
}

func (q *opened) pending() int64 {
	q.t.Helper()
	state, err := q.Bench.Store.Peek(q.t.Context(), "acme")
	if err != nil {
		q.t.Fatal(err)
	}
	return state.Pending
}

// loseWorker takes a document of level 1 as a worker does that is then killed.
func (q *opened) loseWorker() {
	q.t.Helper()
	prefix, asynqs := "asynq:{"+q.queue(1)+"}:", q.Redis.Redis
	id, err := asynqs.LMove(q.t.Context(), prefix+"pending", prefix+"active", "RIGHT", "LEFT").Result()
	if err != nil {
		q.t.Fatal(err)
	}
	if err := errors.Join(asynqs.HSet(q.t.Context(), prefix+"t:"+id, "state", "active").Err(),
		asynqs.ZAdd(q.t.Context(), prefix+"lease", redis.Z{Member: id}).Err()); err != nil {
		q.t.Fatal(err)
	}
	expire(q.t, "redis://"+q.server.Addr, q.Name)
}

func attributes(record slog.Record) (text string) {
	record.Attrs(func(attribute slog.Attr) bool {
		text += " " + attribute.String()
		return true
	})
	return text
}

// onEach is a handler that does something with each record, without the attributes
// of its logger.
type onEach func(slog.Record)

func (h onEach) Enabled(context.Context, slog.Level) bool { return true }

func (h onEach) Handle(_ context.Context, record slog.Record) error {
	h(record)
	return nil
}

func (h onEach) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h onEach) WithGroup(string) slog.Handler      { return h }
