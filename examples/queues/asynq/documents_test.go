package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

func TestALostReplyIsNoSecondDocument(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	var lost atomic.Bool
	q.client.AddHook(afterCommand(func(command redis.Cmder, err error) error {
		if strings.HasPrefix(command.Name(), "eval") && err == nil && lost.CompareAndSwap(false, true) {
			return io.ErrUnexpectedEOF
		}
		return err
	}))
	q.produce("acme", "invoice-1", "")
	info, err := q.inspector.GetQueueInfo(q.queues[0])
	if err != nil || info.Size != 1 || !lost.Load() {
		t.Errorf("%d documents, reply lost: %t, error %v", info.Size, lost.Load(), err)
	}
}

// TestADocumentThatWasGivenUpCanBeSentAgain: what is in the archive is no obstacle.
func TestADocumentThatWasGivenUpCanBeSentAgain(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	var fails atomic.Bool
	fails.Store(true)
	served := q.work(func(string) error {
		if fails.Load() {
			return errors.New("fails")
		}
		return nil
	})
	q.produce("acme", "invoice-1", "")
	q.awaitDead("invoice-1")
	fails.Store(false)
	q.produce("acme", "invoice-1", "")
	q.await(served, "invoice-1")
}

func TestDeadDocumentsArePutBack(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Workers = 20 })
	var fails atomic.Bool
	fails.Store(true)
	served := q.work(func(string) error {
		if fails.Load() {
			return errors.New("fails")
		}
		return nil
	})
	var documents []string
	for number := range 150 { // more than a page of an archive
		documents = append(documents, fmt.Sprint("invoice-", number))
		q.produceAt(9, documents[number])
	}
	q.awaitDead(documents...)
	fails.Store(false)
	if err := q.PutBack(t.Context()); err != nil {
		t.Fatal(err)
	}
	q.await(served, documents...)
	q.awaitDead()
	q.awaitNothingPending("acme")
}

// TestOneThatCannotBePutBackHoldsUpNoOther: one customer's count is corrupt, and a
// task of another program is of no customer.
func TestOneThatCannotBePutBackHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Workers = 1 })
	finish := q.start(func(context.Context, string, string, []byte) error { return asynq.SkipRetry }, nil)
	foreign := asynq.NewTask("mail", nil)
	if _, err := asynq.NewClientFromRedisClient(q.client).Enqueue(foreign, asynq.Queue(q.queues[0])); err != nil {
		t.Fatal(err)
	}
	q.produce("broken", "invoice-1", "")
	q.awaitDead("", "invoice-1") // ahead of the good one
	q.produce("acme", "invoice-2", "")
	q.awaitDead("", "invoice-1", "invoice-2")
	finish()

	q.store.corrupt.Store("broken")
	err := q.PutBack(t.Context())
	if !errors.Is(err, priority.ErrCorruptCount) || !errors.Is(err, priority.ErrInvalidCustomer) {
		t.Errorf("error %v, want those of both", err)
	}
	q.awaitDead("", "invoice-1")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := q.PutBack(ctx); !errors.Is(err, context.Canceled) || errors.Is(err, priority.ErrCorruptCount) {
		t.Errorf("error %v, want no attempt", err)
	}
}

func TestWhatIsNotUTF8IsRefusedBeforeItIsCounted(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, names := range [][2]string{{"acme", "invoice-\xff"}, {"acme\xff", "invoice"}} {
		err := q.Produce(ctx, names[0], names[1], nil)
		if err == nil || !strings.Contains(err.Error(), "UTF-8") {
			t.Errorf("%q: error %v", names, err)
		}
		q.awaitNothingPending(names[0])
	}
}

func TestABodyOfAnyBytesArrives(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	q.produce("acmé", "invoice 1\n", "\x00\xff")
	ctx, stop := context.WithCancel(t.Context())
	err := q.Work(ctx, func(_ context.Context, customer, document string, body []byte) error {
		defer stop()
		if customer != "acmé" || document != "invoice 1\n" || string(body) != "\x00\xff" {
			t.Errorf("%q, %q, %q", customer, document, body)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestAPanicIsAFailure(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	var panics atomic.Int32
	served := q.work(func(document string) error {
		if document == "panics" {
			panics.Add(1)
			panic("a bug")
		}
		return nil
	})
	q.produce("acme", "panics", "")
	q.produce("acme", "good", "")
	q.await(served, "good")
	q.awaitDead("panics")
	q.awaitNothingPending("acme")
	if panics.Load() != 2 {
		t.Errorf("tried %d times, want 2", panics.Load())
	}
}

// TestAnErrorOfAnyTextIsKept: as text, and it does not hold up the next try. asynq
// can keep nothing else.
func TestAnErrorOfAnyTextIsKept(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Backoff = []time.Duration{time.Second} })
	var tries atomic.Int32
	q.work(func(document string) error {
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
	for document := range kept {
		q.produce("acme", document, "")
	}
	q.awaitDead(slices.Collect(maps.Keys(kept))...)
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
	q.awaitNothingPending("acme")
}

type reason struct{ text string }

func (r *reason) Error() string { return r.text }

// TestADocumentThatKillsItsWorkersIsGivenUp: by a worker that does not try it, and
// says Done.
func TestADocumentThatKillsItsWorkersIsGivenUp(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	q.produce("acme", "kills", "")
	for range 2 { // each of its tries
		q.loseWorker(q.queues[0])
		recovered := q.start(func(context.Context, string, string, []byte) error { return nil }, func(o *Options) {
			o.Backoff = []time.Duration{time.Hour}
		})
		redistest.Await(t, "asynq sees that the worker is gone", func() bool {
			info, err := q.inspector.GetQueueInfo(q.queues[0])
			return err == nil && info.Active == 0
		})
		recovered()
		if _, err := q.inspector.RunAllRetryTasks(q.queues[0]); err != nil { // its back-off is over
			t.Fatal(err)
		}
	}
	served := q.work(func(string) error { return nil })
	q.awaitDead("kills")
	q.awaitNothingPending("acme")
	if len(served) > 0 {
		t.Errorf("%s was served", <-served)
	}
}

func TestSkipRetryGivesUpAtOnce(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
	q.work(func(string) error { return fmt.Errorf("not a document at all: %w", asynq.SkipRetry) })
	q.produce("acme", "invoice-1", "")
	q.awaitDead("invoice-1")
	q.awaitNothingPending("acme")
}

func TestADocumentOverItsLimitHasFailed(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Limit, o.Backoff = 50*time.Millisecond, nil })
	q.produce("acme", "slow", "")
	defer q.start(func(ctx context.Context, _, _ string, _ []byte) error {
		<-ctx.Done()
		return ctx.Err()
	}, nil)()
	q.awaitDead("slow")
	tasks, err := q.archived()
	if err != nil || len(tasks) != 1 || !strings.Contains(tasks[0].LastErr, context.DeadlineExceeded.Error()) {
		t.Errorf("tasks %+v, error %v", tasks, err)
	}
}

// TestADocumentThatHangsIsTriedAgain: also where process does not obey the end of
// its context. Its worker is free again.
func TestADocumentThatHangsIsTriedAgain(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Limit, o.Workers = 50*time.Millisecond, 1 })
	hangs := make(chan struct{})
	defer close(hangs)
	var began atomic.Int32
	served := q.work(func(string) error {
		if began.Add(1) == 1 {
			<-hangs
		}
		return nil
	})
	q.produce("acme", "hangs", "")
	q.await(served, "hangs")
	q.awaitNothingPending("acme")
}

// TestADocumentThatFailedComesBackAtItsLevel: ahead of the later levels.
func TestADocumentThatFailedComesBackAtItsLevel(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Workers, o.Strict = 1, true })
	for level, document := range map[priority.Level]string{1: "fails", 5: "waits", 9: "is last"} {
		q.produceAt(level, document)
	}
	var tried []string
	served := q.work(func(document string) error {
		tried = append(tried, document)
		switch len(tried) {
		case 1:
			return errors.New("fails once")
		case 2:
			redistest.Await(t, "the retry is due", func() bool {
				info, err := q.inspector.GetQueueInfo(q.queues[0])
				return err == nil && info.Pending == 1
			})
		}
		return nil
	})
	q.await(served, "fails", "waits", "is last")
	if want := []string{"fails", "waits", "fails", "is last"}; !slices.Equal(tried, want) {
		t.Errorf("tried %q, want %q", tried, want)
	}
}

func TestByWeightTheLastLevelIsServedToo(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), func(o *Options) { o.Workers = 1 })
	const each = 200
	for number := range each {
		for _, level := range []priority.Level{9, 1} {
			q.produceAt(level, fmt.Sprintf("%d-%d", level, number))
		}
	}
	served := q.work(func(string) error { return nil })
	// While both have work, one in ten is of the last level: 20 of 200, give or take
	// 4. That it is none, or 80, is as good as impossible.
	ofLast := 0
	for range each {
		if document := <-served; strings.HasPrefix(document, "9-") {
			ofLast++
		}
	}
	if ofLast < 1 || ofLast > 80 {
		t.Errorf("of the first %d documents %d are of the last level", each, ofLast)
	}
}

// TestADocumentsEndWaitsForRedis: one that was in hand when Redis went away is
// served once, however long that takes, up to asynq's lease.
func TestADocumentsEndWaitsForRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	var back sync.Once
	q := open(t, redis, func(o *Options) {
		o.Workers = 1
		o.Logger = slog.New(onMessage("a document's end waits for Redis", func() {
			back.Do(func() {
				if err := redis.Restart(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}))
	})
	q.produce("acme", "invoice-1", "")
	served := q.work(func(string) error {
		redis.Kill()
		return nil
	})
	q.await(served, "invoice-1")
	redistest.Await(t, "the queue has forgotten the document", func() bool {
		info, err := q.inspector.GetQueueInfo(q.queues[0])
		return err == nil && info.Size == 0
	})
}

// TestADocumentIsServedAgainAfterALongOutage: asynq's lease ends after 30 s, and it
// looks for such documents once a minute.
func TestADocumentIsServedAgainAfterALongOutage(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	q := open(t, redis, nil)
	q.produce("acme", "invoice-1", "")
	served := make(chan string, 10)
	var began atomic.Int32
	defer q.start(func(ctx context.Context, _, document string, _ []byte) error {
		if began.Add(1) == 1 {
			redis.Kill()
			<-ctx.Done()
			return errors.Join(ctx.Err(), redis.Restart(t.Context()))
		}
		served <- document
		return nil
	}, nil)()
	q.await(served, "invoice-1")
	q.awaitNothingPending("acme")
}

func TestProduceAndWorkBeginWithoutRedis(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	redis.Kill()
	var back sync.Once
	q := open(t, redis, func(o *Options) {
		o.Logger = slog.New(onMessage("a document could not be sent, trying again", func() {
			back.Do(func() {
				if err := redis.Restart(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}))
	})
	served := q.work(func(string) error { return nil })
	q.produce("acme", "invoice-1", "")
	q.await(served, "invoice-1")
}

// TestAFullRedisLosesNoDocument: nothing moves until there is room, in neither
// direction.
func TestAFullRedisLosesNoDocument(t *testing.T) {
	t.Parallel()
	full := make(chan string, 1000)
	q := open(t, startRedis(t), func(o *Options) {
		o.Logger = slog.New(onEach(func(record slog.Record) {
			if text := record.Message + attributes(record); strings.Contains(text, "OOM") {
				select {
				case full <- record.Message:
				default:
				}
			}
		}))
	})
	q.produce("acme", "invoice-1", "")
	setMemory := func(most string) {
		if err := q.client.ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
			t.Error(err)
		}
	}
	setMemory("1")
	served := q.work(func(string) error { return nil })
	produced := make(chan error)
	go func() { produced <- q.Produce(t.Context(), "acme", "invoice-2", nil) }()
	producer, consumer := false, false
	for !producer || !consumer {
		message := <-full
		producer = producer || message == "a document could not be sent, trying again"
		consumer = consumer || strings.HasPrefix(message, "Dequeue error")
	}
	if len(served) > 0 {
		t.Errorf("%s was served", <-served)
	}
	setMemory("0")
	if err := <-produced; err != nil {
		t.Error(err)
	}
	q.await(served, "invoice-1", "invoice-2")
}

// TestProduceEndsWithItsContext: and says what was wrong.
func TestProduceEndsWithItsContext(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	redis.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	q := open(t, redis, func(o *Options) {
		o.Logger = slog.New(onMessage("a document could not be sent, trying again", cancel))
	})
	err := q.Produce(ctx, "acme", "invoice-1", nil)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("error %v", err)
	}
}

func TestRemoveLeavesNothing(t *testing.T) {
	t.Parallel()
	q := open(t, startRedis(t), nil)
	q.produce("acme", "fails", "")
	q.produce("acme", "good", "")
	working, finish := context.WithCancel(t.Context())
	worked := make(chan error)
	go func() {
		worked <- q.Work(working, func(_ context.Context, _, document string, _ []byte) error {
			if document == "fails" {
				return asynq.SkipRetry
			}
			return nil
		})
	}()
	q.awaitDead("fails")
	q.awaitNothingPending("acme")
	finish()
	if err := errors.Join(<-worked, q.Remove(t.Context())); err != nil {
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
	q := open(t, startRedis(t), func(o *Options) { o.Backoff = []time.Duration{time.Hour} })
	q.produceAt(9, "dead")
	q.produceAt(9, "failed")
	finish := q.start(func(_ context.Context, _, document string, _ []byte) error {
		if document == "dead" {
			return asynq.SkipRetry
		}
		return errors.New("fails")
	}, nil)
	q.awaitDead("dead")
	redistest.Await(t, "the other waits for its next try", func() bool {
		info, err := q.inspector.GetQueueInfo(q.queues[8])
		return err == nil && info.Retry == 1
	})
	finish()
	for range 3 {
		q.produceAt(9, "waits")
	}

	page, err := os.ReadFile("../../../docs/queues/asynq.md")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(q.client.Options().Addr, ":")
	var said []string
	for _, line := range regexp.MustCompile(`(?m)^redis-cli (.*)$`).FindAllSubmatch(page, -1) {
		output, err := exec.Command("sh", "-c", client+" -p "+port+" "+string(line[1])).CombinedOutput()
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

// startRedis starts a server, stopped with the test.
func startRedis(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.StartRedis(t.Context())
	if missing := (*server.MissingError)(nil); errors.As(err, &missing) {
		redistest.Skip(t, err.Error())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// tested is a queue, its client, and a store with levels to choose.
type tested struct {
	*Documents
	t      *testing.T
	client *redis.Client
	store  *chosenLevel
}

// open opens a queue on a server. Documents have two tries.
func open(t *testing.T, on *server.Server, change func(*Options)) *tested {
	t.Helper()
	address, err := redis.ParseURL(on.URL)
	if err != nil {
		t.Fatal(err)
	}
	q := &tested{t: t, client: redis.NewClient(address), store: new(chosenLevel)}
	t.Cleanup(func() { _ = q.client.Close() })
	options := &Options{
		Name: "documents", Workers: 4, Limit: time.Minute, Backoff: []time.Duration{time.Millisecond},
		Logger: slog.New(slog.DiscardHandler), Check: 20 * time.Millisecond,
	}
	if change != nil {
		change(options)
	}
	if q.Documents, err = Open(q.client, q.store, options); err != nil {
		t.Fatal(err)
	}
	return q
}

func (q *tested) produce(customer, document, body string) {
	q.t.Helper()
	ctx, cancel := context.WithTimeout(q.t.Context(), time.Minute)
	defer cancel()
	if err := q.Produce(ctx, customer, document, []byte(body)); err != nil {
		q.t.Fatal(err)
	}
}

func (q *tested) produceAt(level priority.Level, document string) {
	q.t.Helper()
	q.store.level.Store(int64(level))
	q.produce("acme", document, "")
}

// start works with other options until the function that it returns is called.
func (q *tested) start(process Process, change func(*Options)) (finish func()) {
	q.t.Helper()
	options := *q.options
	if change != nil {
		change(&options)
	}
	d, err := Open(q.client, q.store, &options)
	if err != nil {
		q.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(q.t.Context())
	worked := make(chan error)
	go func() { worked <- d.Work(ctx, process) }()
	return func() {
		q.t.Helper()
		cancel()
		if err := <-worked; err != nil {
			q.t.Error(err)
		}
	}
}

// work works until the test ends, and sends the documents that were served.
func (q *tested) work(process func(document string) error) (served chan string) {
	q.t.Helper()
	served = make(chan string, 1000)
	q.t.Cleanup(q.start(func(_ context.Context, _, document string, _ []byte) error {
		err := process(document)
		if err == nil {
			served <- document
		}
		return err
	}, nil))
	return served
}

// await returns when just these documents were served, in any order.
func (q *tested) await(served chan string, documents ...string) {
	q.t.Helper()
	var got []string
	for range documents {
		select {
		case document := <-served:
			got = append(got, document)
		case <-time.After(3 * time.Minute):
			q.t.Fatalf("served %q, want %q", got, documents)
		}
	}
	if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(documents))) {
		q.t.Errorf("served %q, want %q", got, documents)
	}
}

func (q *tested) awaitDead(documents ...string) {
	q.t.Helper()
	redistest.Await(q.t, fmt.Sprintf("%q are given up", documents), func() bool {
		dead, err := q.Dead(q.t.Context())
		return err == nil && slices.Equal(slices.Sorted(slices.Values(dead)), slices.Sorted(slices.Values(documents)))
	})
}

func (q *tested) awaitNothingPending(customer string) {
	q.t.Helper()
	redistest.Await(q.t, "nothing is pending", func() bool {
		now, err := q.store.Peek(q.t.Context(), customer)
		return err == nil && now.Pending == 0
	})
}

// loseWorker takes a document out of a queue as a worker does that is then killed,
// a good minute ago.
func (q *tested) loseWorker(name string) {
	q.t.Helper()
	prefix := "asynq:{" + name + "}:"
	id, err := q.client.LMove(q.t.Context(), prefix+"pending", prefix+"active", "RIGHT", "LEFT").Result()
	if err != nil {
		q.t.Fatal(err)
	}
	lease := redis.Z{Member: id, Score: float64(time.Now().Add(-time.Minute).Unix())}
	if err := errors.Join(q.client.HSet(q.t.Context(), prefix+"t:"+id, "state", "active").Err(),
		q.client.ZAdd(q.t.Context(), prefix+"lease", lease).Err()); err != nil {
		q.t.Fatal(err)
	}
}

// chosenLevel is a store that gives all documents the level that the test has chosen,
// if any, and has no count of one customer, if any.
type chosenLevel struct {
	memory.Store
	level   atomic.Int64
	corrupt atomic.Value
}

func (c *chosenLevel) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	if customer == c.corrupt.Load() {
		return priority.Decision{}, priority.ErrCorruptCount
	}
	decision, err := c.Store.Submit(ctx, customer, document)
	if level := c.level.Load(); level > 0 {
		decision.Level = priority.Level(level)
	}
	return decision, err
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

// onMessage returns a handler that does something when a message is logged.
func onMessage(message string, do func()) slog.Handler {
	return onEach(func(record slog.Record) {
		if record.Message == message {
			do()
		}
	})
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
