package priorityredis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/markdown"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/redis/go-redis/v9"
)

// onBoth runs a test on streams and on lists.
func onBoth(t *testing.T, test func(t *testing.T, options *Options)) {
	t.Parallel()
	for name, lists := range map[string]bool{"streams": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &Options{Lists: lists})
		})
	}
}

var quiet = slog.New(slog.DiscardHandler)

// tested is a queue whose documents have the levels that a test says.
type tested struct {
	*Queue
	t     *testing.T
	store *levels
}

type levels struct {
	memory.Store
	now atomic.Int64
}

func (l *levels) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	decision, err := l.Store.Submit(ctx, customer, document, cost)
	decision.Level = priority.Level(l.now.Load())
	return decision, err
}

func open(t *testing.T, client redis.UniversalClient, options *Options) *tested {
	t.Helper()
	own, store := *options, new(levels)
	own.Logger = quiet
	q, err := Open(t.Context(), client, store, &own)
	if err != nil {
		t.Fatal(err)
	}
	return &tested{q, t, store}
}

// sendAt adds documents of the customer acme.
func (d *tested) sendAt(level priority.Level, documents ...string) {
	d.t.Helper()
	d.store.now.Store(int64(level))
	for _, document := range documents {
		if err := d.Add(d.t.Context(), "acme", document, nil); err != nil {
			d.t.Fatal(err)
		}
	}
}

// serveAll has process work on documents until stop is called, or the test ends.
func (d *tested) serveAll(process func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(d.t.Context()))
	worked := make(chan error, 1)
	go func() {
		worked <- d.Work(ctx, func(ctx context.Context, _, _ string, _ []byte) error { return process(ctx) })
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-worked; err != nil {
			d.t.Errorf("work: %v", err)
		}
	})
	d.t.Cleanup(stop)
	return stop
}

func ids(letters []Letter) (documents []string) {
	for _, letter := range letters {
		documents = append(documents, letter.Document)
	}
	return documents
}

func TestALostReplyOfAFetchGivesTheSameDocumentAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		d := open(t, redistest.Start(t).Client(), options)
		d.sendAt(1, "first", "second")
		for range 3 {
			if got := fetch(t, d, "worker-1"); got.document != "first" || got.tries != 1 {
				t.Errorf("got %s, try %d", got.document, got.tries)
			}
		}
		if got := fetch(t, d, "worker-2"); got.document != "second" {
			t.Errorf("another worker got %s", got.document)
		}
	})
}

// A worker stood still for longer than its lease. What it says of its document when
// it goes on again does not harm the one that has the document since.
func TestAWorkerThatWasLostHasNoSayAnyMore(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease = 100 * time.Millisecond
		d := open(t, redistest.Start(t).Client(), options)
		d.sendAt(1, "invoice")
		lost := fetch(t, d, "worker-1")
		var other *delivery
		redistest.Await(t, "another gets it", func() bool {
			got, err := d.fetch(t.Context(), "worker-2")
			other = got
			return err == nil
		})
		if other.tries != 2 {
			t.Errorf("the other's is try %d", other.tries)
		}
		for script, arguments := range map[string][]any{"renew": {1000}, "failed": {-1, "why"}} {
			said, err := d.run(t.Context(), script, lost.keys, append([]any{lost.worker, lost.id}, arguments...)...).Int()
			if err != nil || said != 0 {
				t.Errorf("%s by the worker that was lost: %d, %v", script, said, err)
			}
		}
		if dead, err := d.Dead(t.Context()); err != nil || len(dead) > 0 {
			t.Errorf("given up: %+v, %v", dead, err)
		}
		if held, err := d.run(t.Context(), "renew", other.keys, other.worker, other.id, 1000).Bool(); err != nil || !held {
			t.Errorf("the other has it: %t, %v", held, err)
		}
	})
}

// The worker that works on is told by its context, and the document is not tried once
// more for its error.
func TestAWorkerIsToldThatItLostItsDocument(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease, options.Limit = 300*time.Millisecond, time.Minute
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { _ = client.Close() })
		d := open(t, client, options)
		d.sendAt(1, "invoice")
		began, told := make(chan bool, 1), make(chan error, 1)
		d.serveAll(func(ctx context.Context) error {
			began <- true
			<-ctx.Done()
			told <- context.Cause(ctx)
			return ctx.Err()
		})
		<-began
		proxy.Set(redistest.Blackhole)
		proxy.CloseConnections()
		other := open(t, server.Client(), options)
		redistest.Await(t, "another gets it", func() bool {
			_, err := other.fetch(t.Context(), "worker-2")
			return err == nil
		})
		proxy.Set(redistest.None)
		proxy.CloseConnections()
		if cause := <-told; !errors.Is(cause, errLost) {
			t.Errorf("the worker's context ended for %v", cause)
		}
	})
}

func TestWorkersOfTheStreamsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, new(Options))
	d.sendAt(1, "invoice", "other")
	done := fetch(t, d, "worker-1")
	fetch(t, d, "worker-2")
	if err := d.run(t.Context(), "done", done.keys, done.worker, done.id).Err(); err != nil {
		t.Fatal(err)
	}
	if err := d.run(t.Context(), "tidy", d.queues, 0).Err(); err != nil {
		t.Fatal(err)
	}
	left := client.XInfoConsumers(t.Context(), d.queues[0], "workers").Val()
	if len(left) != 1 || left[0].Name != "worker-2" { // it has a document in hand
		t.Errorf("left: %+v", left)
	}
}

func TestEachLevelIsServedByItsWeight(t *testing.T) {
	t.Parallel()
	d := &Queue{queues: make([]string, 9), options: Options{Weights: []int64{9, 8, 7, 6, 5, 4, 3, 2, 1}}}
	const rounds = 45_000 // the deviation of a level's count is less than 85
	counts, ofTwo := make(map[int]int), make(map[int]int)
	for range rounds {
		order := d.order()
		counts[order[0]]++
		ofTwo[order[slices.IndexFunc(order, func(level int) bool { return level == 0 || level == 8 })]]++ // others are empty
	}
	for level := range 9 {
		if want := rounds / 45 * (9 - level); counts[level] < want-600 || counts[level] > want+600 {
			t.Errorf("level %d is first %d times of %d, want about %d", level+1, counts[level], rounds, want)
		}
	}
	if want := rounds / 10; ofTwo[8] < want-600 || ofTwo[8] > want+600 {
		t.Errorf("level 9 comes before level 1 %d times, want about %d", ofTwo[8], want)
	}
}

// Producers in other languages push what they like.
func TestAnyElementOfAListIsServed(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, &Options{Lists: true})
	elements := map[string]string{
		`{"customer": "acme", "document": "invoice", "body": "text"}`: "acme invoice text",
		`{"customer": "acme", "document": 7, "more": []}`:             "acme 7 ",
		`{"customer": "acme", "body": {"page": 1}}`:                   `acme  {"page":1}`,
		`{"customer": "acme", "document": NaN}`:                       "acme  ",
		`no JSON`:                                                     "  no JSON",
		`[1]`:                                                         "  [1]",
		`{"page": 1}`:                                                 `  {"page": 1}`,
		"\xff":                                                        "  \xff",
		`{"customer": null}`:                                          "  ",
	}
	for element, want := range elements {
		if err := client.RPush(t.Context(), d.queues[4], element).Err(); err != nil {
			t.Fatal(err)
		}
		got := fetch(t, d, "worker-1")
		if is := fmt.Sprint(got.customer, " ", got.document, " ", string(got.body)); is != want {
			t.Errorf("%q is %q, want %q", element, is, want)
		}
		d.tell(t.Context(), quiet, "failed", got, -1, "why")
	}
	dead, err := d.Dead(t.Context())
	if err != nil || len(dead) != len(elements) {
		t.Errorf("given up: %+v, %v", dead, err)
	}
	d.store.now.Store(5)
	for _, letter := range dead {
		if err := d.Retry(t.Context(), letter); err != nil {
			t.Error(err)
		}
	}
	back := client.LRange(t.Context(), d.queues[4], 0, -1).Val()
	if slices.Sort(back); !slices.Equal(back, slices.Sorted(maps.Keys(elements))) {
		t.Errorf("put back: %q", back)
	}
}

// A consumer in another language needs nothing but commands for streams.
func TestAnyConsumerOfAStreamSharesTheWork(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, &Options{Lease: 100 * time.Millisecond})
	if _, err := d.fetch(t.Context(), "worker-1"); !errors.Is(err, redis.Nil) {
		t.Fatal(err)
	}
	d.sendAt(1, "done", "begun")
	read, err := client.XReadGroup(t.Context(), &redis.XReadGroupArgs{
		Group: "workers", Consumer: "python-1", Streams: []string{d.queues[0], ">"}, Count: 2,
	}).Result()
	if err != nil {
		t.Fatal(err)
	}
	done := read[0].Messages[0].ID
	if err := errors.Join(client.XAck(t.Context(), d.queues[0], "workers", done).Err(), client.XDel(t.Context(), d.queues[0], done).Err()); err != nil {
		t.Fatal(err)
	}
	redistest.Await(t, "what it has begun is given to another", func() bool {
		got, err := d.fetch(t.Context(), "worker-1")
		return err == nil && got.document == "begun" && got.tries == 2
	})
	if got := waiting(t, d); got != 1 {
		t.Errorf("%d documents in the queue", got)
	}
}

func TestADocumentCostsARoundTripToFetchAndOneToRemove(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		d.sendAt(1, "first", "second")
		serve := func() {
			d.tell(t.Context(), quiet, "done", fetch(t, d, "worker-1"))
		}
		serve() // Redis knows the scripts from now on
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		serve()
		if calls := redistest.Calls(t, client); calls["evalsha"] != 2 || calls["eval"] != 0 {
			t.Errorf("calls: %v", calls)
		}
	})
}

// The lists are empty, but some of their documents wait, or are given up.
func TestStreamsRefuseTheDocumentsOfLists(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]any{"wait": 0, "given up": -1} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Start(t).Client()
			early := open(t, client, new(Options)) // before the lists had any
			lists := open(t, client, &Options{Lists: true})
			lists.sendAt(1, "invoice")
			lists.tell(t.Context(), quiet, "failed", fetch(t, lists, "worker-1"), wait, "why")
			_, err := Open(t.Context(), client, new(memory.Store), &Options{Logger: quiet})
			if err == nil || !strings.Contains(err.Error(), "of lists") {
				t.Errorf("opened as streams: %v", err)
			}
			if _, err := early.fetch(t.Context(), "worker-1"); wait == 0 && (err == nil || !strings.Contains(err.Error(), "of lists")) {
				t.Errorf("a stream's worker: %v", err)
			}
			dead, err := lists.Dead(t.Context())
			if left := waiting(t, lists) + len(dead); err != nil || left != 1 {
				t.Errorf("%d documents are left, %v", left, err)
			}
		})
	}
}

func fetch(t *testing.T, d *tested, worker string) *delivery {
	t.Helper()
	got, err := d.fetch(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// waiting is how many documents are in the levels' queues.
func waiting(t *testing.T, d *tested) int {
	t.Helper()
	var count int64
	for i, one := range d.queues {
		if d.options.Lists {
			count += d.client.LLen(t.Context(), one).Val() + d.client.ZCard(t.Context(), d.later[i]).Val()
		} else {
			count += d.client.XLen(t.Context(), one).Val()
		}
	}
	return int(count)
}

// All leases end while Redis cannot be reached. The workers that live renew them
// before anybody takes their documents, those on their last try, too.
func TestAnOutageTakesNoDocumentFromALivingWorker(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Workers, options.Lease, options.Backoff = 7, 3*time.Second, []time.Duration{}
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { _ = client.Close() })
		d, direct := open(t, client, options), open(t, server.Client(), options)
		d.sendAt(1, "a", "b", "c", "d", "e", "f")
		var begun atomic.Int32
		finish := make(chan bool)
		stop := d.serveAll(func(ctx context.Context) error {
			begun.Add(1)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-finish:
				return nil
			}
		})
		redistest.Await(t, "all are begun", func() bool { return begun.Load() == 6 })
		proxy.Set(redistest.Blackhole)
		proxy.CloseConnections()
		redistest.Await(t, "all leases are over", func() bool { return overdue(t, direct) == 6 })
		proxy.Set(redistest.None)
		proxy.CloseConnections()
		redistest.Await(t, "all have a lease again", func() bool { return overdue(t, direct) == 0 })
		close(finish)
		redistest.Await(t, "all are served", func() bool { return waiting(t, d) == 0 })
		stop()
		if dead, err := d.Dead(t.Context()); err != nil || len(dead) > 0 || begun.Load() != 6 {
			t.Errorf("given up: %+v, %v; begun %d times", dead, err, begun.Load())
		}
	})
}

// Who has lost Redis from sight does not know who else has: it leaves the documents
// of lost workers to others for a while, and serves what is new.
func TestAProcessThatLostRedisTakesNoDocumentsOfOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease = 2 * time.Second
		d := open(t, redistest.Start(t).Client(), options)
		d.sendAt(1, "lost")
		fetch(t, d, "worker-1")
		redistest.Await(t, "its lease is over", func() bool { return overdue(t, d) == 1 })
		d.unreached.Store(time.Now().UnixMilli())
		d.sendAt(1, "new")
		if got := fetch(t, d, "worker-2"); got.document != "new" {
			t.Errorf("got %s", got.document)
		}
		redistest.Await(t, "the other is taken in the end", func() bool {
			got, err := d.fetch(t.Context(), "worker-3")
			return err == nil && got.document == "lost" && got.tries == 2
		})
	})
}

// overdue is how many documents of level 1 are in the hands of workers whose lease
// is over.
func overdue(t *testing.T, d *tested) int {
	t.Helper()
	if d.options.Lists {
		now := d.client.Time(t.Context()).Val().UnixMilli()
		return int(d.client.ZCount(t.Context(), d.later[0], "-inf", strconv.FormatInt(now, 10)).Val())
	}
	return len(d.client.XPendingExt(t.Context(), &redis.XPendingExtArgs{
		Stream: d.queues[0], Group: "workers", Start: "-", End: "+", Count: 100, Idle: d.options.Lease,
	}).Val())
}

// Equal elements are as many documents as were pushed, however often they fail.
func TestEqualElementsOfAListStayAsMany(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, &Options{Lists: true})
	for range 3 {
		if err := client.RPush(t.Context(), d.queues[0], `{"body": "tick"}`).Err(); err != nil {
			t.Fatal(err)
		}
	}
	for try := range 3 {
		var held []*delivery
		for i := range 3 {
			redistest.Await(t, "one is due", func() bool {
				got, err := d.fetch(t.Context(), fmt.Sprint("worker-", i))
				if err == nil {
					held = append(held, got)
				}
				return err == nil
			})
		}
		for _, got := range held {
			if got.tries != try+1 || string(got.body) != "tick" {
				t.Errorf("try %d of %q, want %d", got.tries, got.body, try+1)
			}
			d.tell(t.Context(), quiet, "failed", got, 1, "why")
		}
		if got := waiting(t, d); got != 3 {
			t.Fatalf("after try %d there are %d documents", try+1, got)
		}
	}
}

// A producer in another language has added more fields than a script can pass on.
func TestAnEntryOfManyFieldsIsGivenUp(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, &Options{Backoff: []time.Duration{}})
	values := []any{"customer", "acme", "document", "wide", "body", "text"}
	for i := range 5000 {
		values = append(values, fmt.Sprint("field-", i), "value")
	}
	if err := client.XAdd(t.Context(), &redis.XAddArgs{Stream: d.queues[0], Values: values}).Err(); err != nil {
		t.Fatal(err)
	}
	got := fetch(t, d, "worker-1")
	if err := d.run(t.Context(), "failed", got.keys, got.worker, got.id, -1, "why").Err(); err != nil {
		t.Fatal(err)
	}
	dead := client.XRange(t.Context(), d.dead, "-", "+").Val()
	if len(dead) != 1 || dead[0].Values["document"] != "wide" || dead[0].Values["body"] != "text" || dead[0].Values["why"] != "why" {
		t.Errorf("given up: %v", dead)
	}
}

// No step takes Redis for as long as there are dead letters.
func TestDeadLettersAreReadInPages(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		var want []string
		for i := range 50 {
			want = append(want, fmt.Sprint(i))
			d.sendAt(1, want[i])
			d.tell(t.Context(), quiet, "failed", fetch(t, d, "worker-1"), -1, "why")
		}
		if _, err := d.Dead(t.Context()); err != nil { // Redis knows the script from now on
			t.Fatal(err)
		}
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if dead, err := d.Dead(t.Context()); err != nil || !slices.Equal(ids(dead), want) {
			t.Errorf("given up: %+v, %v", dead, err)
		}
		if calls := redistest.Calls(t, client)["xrange"]; calls != 3 {
			t.Errorf("%d calls for 50 documents, want one for each 20", calls)
		}
	})
}

func TestNilsAreRefused(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{})
	defer func() { _ = client.Close() }()
	for want, try := range map[string]func() (*Queue, error){
		"the client is nil": func() (*Queue, error) { return Open(t.Context(), (*redis.Client)(nil), new(memory.Store), nil) },
		"the store is nil":  func() (*Queue, error) { return Open(t.Context(), client, nil, nil) },
	} {
		if _, err := try(); !errors.Is(err, priority.ErrInvalidOption) || err.Error() != "priorityredis: "+priority.ErrInvalidOption.Error()+": "+want {
			t.Errorf("%s: %v", want, err)
		}
	}
}

const root = "../.."

// Each line of the page for redis-cli is run, in their order, on a queue with a
// document that waits, one in hand, one that has failed, and one given up, all of
// level 9.
func TestTheLinesOfThePageDoWhatTheySay(t *testing.T) {
	redistest.Find(t, "redis-cli", "redis-tools")
	blocks := markdown.Read(t, root+"/docs/queues/redis.md").Blocks("sh")
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks of lines, want one for streams and one for lists", len(blocks))
	}
	onBoth(t, func(t *testing.T, options *Options) {
		lines, tells := strings.Split(strings.TrimSpace(blocks[0]), "\n"), []string{"3", "worker-1", " 1\n", "why it failed"}
		if options.Lists {
			lines, tells = strings.Split(strings.TrimSpace(blocks[1]), "\n"), []string{"1", "worker-1", `"failed"`, "why it failed"}
		}
		if len(lines) != len(tells) {
			t.Fatalf("%d lines, want %d", len(lines), len(tells))
		}
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		d.sendAt(9, "given-up", "failed", "in-hand")
		d.tell(t.Context(), quiet, "failed", fetch(t, d, "worker-1"), -1, "why it failed")
		d.tell(t.Context(), quiet, "failed", fetch(t, d, "worker-1"), time.Hour.Milliseconds(), "why it failed")
		fetch(t, d, "worker-1")
		d.sendAt(9, "waits")

		_, port, err := net.SplitHostPort(server.Addr)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range lines {
			command := exec.Command("sh", "-c", strings.Replace(line, "redis-cli", "redis-cli -p "+port, 1))
			command.Dir = root
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), tells[i]) {
				t.Errorf("%s\n%v, does not tell %q:\n%s", line, err, tells[i], output)
			}
		}
		dead, err := d.Dead(t.Context())
		if err != nil || len(dead) != 1 {
			t.Fatalf("given up: %+v, %v", dead, err)
		}
		if err := d.Retry(t.Context(), dead[0]); err != nil {
			t.Fatal(err)
		}
		if got := fetch(t, d, "worker-2"); got.document != "waits" {
			t.Errorf("got %s", got.document)
		}
		if got := fetch(t, d, "worker-3"); got.document != "given-up" || got.customer != "acme" || got.tries != 1 {
			t.Errorf("got %s of %s, try %d: want what was put back, as new", got.document, got.customer, got.tries)
		}
	})
}

// A store without a timeout of its own may never answer.
func TestAStoreThatHangsHoldsNoWorker(t *testing.T) {
	ends := false
	store := &hanging{see: func(ctx context.Context) { _, ends = ctx.Deadline() }}
	q := &Queue{store: store}
	q.settle(t.Context(), quiet, &delivery{customer: "acme", document: "one"}, 0)
	if !ends {
		t.Error("Done was called with a context that never ends")
	}
}

type hanging struct {
	memory.Store
	see func(context.Context)
}

func (h *hanging) Done(ctx context.Context, _, _ string, _ time.Duration) error {
	h.see(ctx)
	return nil
}
