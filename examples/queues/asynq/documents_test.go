package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func TestALostReplyIsNoSecondDocument(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	var lost atomic.Bool
	q.client.AddHook(afterCommand(func(command redis.Cmder, err error) error {
		if strings.HasPrefix(command.Name(), "eval") && err == nil && lost.CompareAndSwap(false, true) {
			return io.ErrUnexpectedEOF
		}
		return err
	}))
	q.Send("invoice-1")
	if info := q.info(1); info.Size != 1 || !lost.Load() {
		t.Errorf("%d documents, reply lost: %t", info.Size, lost.Load())
	}
}

// What is in the archive is no obstacle.
func TestADocumentThatWasGivenUpCanBeSentAgain(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	fails := q.serveOrFail()
	q.Send("invoice-1")
	q.AwaitDead("invoice-1")
	fails.Store(false)
	q.Send("invoice-1")
	q.AwaitServed("invoice-1")
}

func TestDeadDocumentsArePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Workers = 20 })
	fails := q.serveOrFail()
	var documents []string
	for number := range 150 { // more than a page of an archive
		documents = append(documents, fmt.Sprint("invoice-", number))
	}
	q.SendAt(9, documents...)
	q.AwaitDead(documents...)
	fails.Store(false)
	if err := q.PutBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.AwaitServed(documents...)
	q.AwaitDead()
	q.AwaitNothingPending()
}

// One customer's count is corrupt, and a task of another program is of no customer.
func TestOneThatCannotBePutBackHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Workers = 1 })
	var corrupt atomic.Bool
	q.Store.OnSubmit = func(_, document string) error {
		if document == "broken" && corrupt.Load() {
			return priority.ErrCorruptCount
		}
		return nil
	}
	finish := q.Serve(func(context.Context, string) error { return asynq.SkipRetry })
	foreign := asynq.NewTask("mail", nil)
	if _, err := asynq.NewClientFromRedisClient(q.client).Enqueue(foreign, asynq.Queue(q.queues[0])); err != nil {
		t.Fatal(err)
	}
	q.Send("broken")
	q.AwaitDead("", "broken") // ahead of the good one
	q.Send("good")
	q.AwaitDead("", "broken", "good")
	finish()

	corrupt.Store(true)
	err := q.PutBack(t.Context())
	if !errors.Is(err, priority.ErrCorruptCount) || !errors.Is(err, priority.ErrInvalidCustomer) {
		t.Errorf("error %v, want those of both", err)
	}
	q.AwaitDead("", "broken")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.PutBack(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, priority.ErrCorruptCount) {
		t.Errorf("error %v, want no attempt", err)
	}
}

// It is kept as text, and does not hold up the next try. asynq can keep nothing else.
func TestAnErrorOfAnyTextIsKept(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Second} })
	var tries atomic.Int32
	q.Serve(func(_ context.Context, document string) error {
		tries.Add(1)
		switch document {
		case "not UTF-8":
			return errors.New("no number: \xff\xfe")
		case "panics":
			panic("no number: \xff\xfe")
		case "long":
			return errors.New(strings.Repeat("é\xff", 100_000))
		default:
			return (*reason)(nil) // its Error panics
		}
	})
	kept := map[string]string{
		"not UTF-8": "no number: \uFFFD", "panics": "panic: no number: \uFFFD",
		"long": strings.Repeat("é\uFFFD", 200), "nil": "<nil>",
	}
	documents := slices.Collect(maps.Keys(kept))
	q.Send(documents...)
	q.AwaitDead(documents...)
	tasks, err := q.archived()
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		document := task.Headers[documentHeader]
		if want := kept[document] + "; " + asynq.SkipRetry.Error(); task.LastErr != want {
			t.Errorf("%s: the archive says %q, want %q", document, task.LastErr, want)
		}
	}
	if tries := int(tries.Load()); tries != 2*len(kept) {
		t.Errorf("%d tries of %d documents, want 2 each", tries, len(kept))
	}
	q.AwaitNothingPending()
}

type reason struct{ text string }

func (r *reason) Error() string { return r.text }

// A worker gives it up that does not try it, and says Done.
func TestADocumentThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
	q.Send("kills")
	for range 2 { // each of its tries
		q.loseWorker()
		recovered := q.Serve(nil)
		redistest.Await(t, "asynq sees that the worker is gone", func() bool { return q.info(1).Active == 0 })
		recovered()
		if _, err := q.inspector.RunAllRetryTasks(q.queues[0]); err != nil { // its back-off is over
			t.Fatal(err)
		}
	}
	q.Serve(nil)
	q.AwaitDead("kills")
	q.AwaitNothingPending()
	q.AwaitServed()
}

func TestSkipRetryGivesUpAtOnce(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
	q.Serve(func(context.Context, string) error { return fmt.Errorf("not a document at all: %w", asynq.SkipRetry) })
	q.Send("invoice-1")
	q.AwaitDead("invoice-1")
	q.AwaitNothingPending()
}

// So it is where process does not obey the end of its context. Its worker is free again.
func TestADocumentThatHangsIsTriedAgain(t *testing.T) {
	t.Parallel()
	q := open(t, func(o *Options) { o.Limit, o.Workers = 50*time.Millisecond, 1 })
	hangs := make(chan struct{})
	var began atomic.Int32
	q.Serve(func(context.Context, string) error {
		if began.Add(1) == 1 {
			<-hangs
			return errors.New("too late")
		}
		return nil
	})
	t.Cleanup(func() { close(hangs) }) // first of all
	q.Send("hangs")
	q.AwaitServed("hangs")
	q.AwaitNothingPending()
}

// One that was in hand when Redis went away is served once, however long that takes, up
// to asynq's lease.
func TestADocumentsEndWaitsForRedis(t *testing.T) {
	t.Parallel()
	var back sync.Once
	var q *opened
	q = open(t, func(o *Options) {
		o.Workers = 1
		o.Logger = slog.New(onEach(func(record slog.Record) {
			if record.Message == "a document's end waits for Redis" {
				back.Do(q.server.Restart)
			}
		}))
	})
	q.Send("invoice-1")
	q.Serve(func(context.Context, string) error {
		q.server.Kill()
		return nil
	})
	q.AwaitServed("invoice-1")
	redistest.Await(t, "the queue has forgotten the document", func() bool {
		info, err := q.inspector.GetQueueInfo(q.queues[0])
		return err == nil && info.Size == 0
	})
}

// asynq's lease ends after 30 s, and a worker finds such documents when it starts.
func TestADocumentIsServedAgainAfterALongOutage(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
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
	trial.Await(t, "the client has seen that Redis is back", func() bool { return q.client.Ping(t.Context()).Err() == nil })
	expire(t, "redis://"+q.server.Addr, q.options.Name)
	q.Serve(nil)
	q.AwaitServed("invoice-1")
	q.AwaitNothingPending()
}

// Nothing moves until there is room, in neither direction.
func TestAFullRedisLosesNoDocument(t *testing.T) {
	t.Parallel()
	full := make(chan string, 1000)
	q := open(t, func(o *Options) {
		o.Logger = slog.New(onEach(func(record slog.Record) {
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
		if err := q.client.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
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
		producer = producer || message == "a document could not be sent, trying again"
		consumer = consumer || strings.HasPrefix(message, "Dequeue error")
	}
	q.AwaitServed()
	setMemory("0")
	if err := <-produced; err != nil {
		t.Error(err)
	}
	q.AwaitServed("invoice-1", "invoice-2")
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	q := open(t, nil)
	q.Send("fails", "good")
	finish := q.Serve(func(_ context.Context, document string) error {
		if document == "fails" {
			return asynq.SkipRetry
		}
		return nil
	})
	q.AwaitDead("fails")
	q.AwaitServed("good")
	finish()
	if err := q.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := q.client.Keys(t.Context(), "*documents*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys %q, error %v", keys, err)
	}
}

func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	t.Parallel()
	client := redistest.Find(t, "redis-cli", "redis-tools")
	q := open(t, func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
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

func TestWrongOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for field, spoil := range map[string]func(*Options){
		"Name":    func(o *Options) { o.Name = "" },
		"Workers": func(o *Options) { o.Workers = 0 },
		"Limit":   func(o *Options) { o.Limit = 0 },
		"Limit ":  func(o *Options) { o.Limit = math.MaxInt64 }, // asynq's would be below 0
		"Check":   func(o *Options) { o.Check = 0 },
		"Logger":  func(o *Options) { o.Logger = nil },
	} {
		options := &Options{Name: "documents", Workers: 1, Limit: 1, Check: 1, Logger: slog.Default()}
		client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
		if _, err := Open(client, new(memory.Store), options); err != nil {
			t.Errorf("without Backoff, which is one try: error %v", err)
		}
		spoil(options)
		_, err := Open(client, new(memory.Store), options)
		if !errors.Is(err, priority.ErrInvalidOption) || !strings.Contains(err.Error(), ": "+strings.TrimSpace(field)+" ") {
			t.Errorf("%s: error %v", field, err)
		}
	}
}

// opened is a queue on a Redis of its own.
type opened struct {
	*Documents
	*trial.Bench
	t      *testing.T
	server *redistest.Server
	client *redis.Client
}

// open opens a queue. Documents have two tries.
func open(t *testing.T, change func(*Options)) *opened {
	t.Helper()
	q := &opened{t: t, server: redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")}
	q.client = q.server.Client()
	options := &Options{
		Name: "documents", Workers: 4, Limit: time.Minute, Backoff: []time.Duration{time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), Check: 20 * time.Millisecond,
	}
	if change != nil {
		change(options)
	}
	store := new(trial.Store)
	var err error
	if q.Documents, err = Open(q.client, store, options); err != nil {
		t.Fatal(err)
	}
	q.Bench = trial.NewBench(t, q.Documents, store)
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

func (q *opened) info(level priority.Level) *asynq.QueueInfo {
	q.t.Helper()
	info, err := q.inspector.GetQueueInfo(q.queues[level-1])
	if err != nil {
		q.t.Fatal(err)
	}
	return info
}

// loseWorker takes a document of level 1 as a worker does that is then killed.
func (q *opened) loseWorker() {
	q.t.Helper()
	prefix := "asynq:{" + q.queues[0] + "}:"
	id, err := q.client.LMove(q.t.Context(), prefix+"pending", prefix+"active", "RIGHT", "LEFT").Result()
	if err != nil {
		q.t.Fatal(err)
	}
	if err := errors.Join(q.client.HSet(q.t.Context(), prefix+"t:"+id, "state", "active").Err(),
		q.client.ZAdd(q.t.Context(), prefix+"lease", redis.Z{Member: id}).Err()); err != nil {
		q.t.Fatal(err)
	}
	expire(q.t, "redis://"+q.server.Addr, q.options.Name)
}

// afterCommand decides on the outcome of each command to Redis.
type afterCommand func(redis.Cmder, error) error

func (after afterCommand) DialHook(next redis.DialHook) redis.DialHook { return next }

func (after afterCommand) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (after afterCommand) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := after(command, next(ctx, command))
		command.SetErr(err)
		return err
	}
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
