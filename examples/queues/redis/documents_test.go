package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/redis/go-redis/v9"
)

func TestALostReplyAddsADocumentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { _ = client.Close() })
		d := open(t, client, options)
		produce(t, d, "earlier") // Redis knows the script, and the client has a connection
		proxy.Set(redistest.Cut)
		produced := make(chan error)
		go func() { produced <- d.Produce(t.Context(), "acme", "invoice", nil) }()
		direct := open(t, server.Client(), options)
		redistest.Await(t, "the document is added", func() bool { return waiting(t, direct) == 2 })
		proxy.Set(redistest.None)
		if err := <-produced; err != nil {
			t.Fatal(err)
		}
		if got := waiting(t, d); got != 2 {
			t.Errorf("the document was added %d times", got-1)
		}
	})
}

func TestALostReplyOfAFetchGivesTheSameDocumentAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		d := open(t, redistest.Start(t).Client(), options)
		produce(t, d, "first", "second")
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
		produce(t, d, "invoice")
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
			t.Errorf("given up: %q, %v", dead, err)
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
		produce(t, d, "invoice")
		began, told := make(chan bool, 1), make(chan error, 1)
		work(t, d, func(ctx context.Context, _, _ string, _ []byte) error {
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

func TestCancelEndsAWorkerThatWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Poll = time.Hour
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		stop := work(t, d, nil)
		redistest.Await(t, "it has looked for documents", func() bool {
			return redistest.Calls(t, server.Client())["evalsha"] > 10
		})
		stop()
	})
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if wait := (pause{last: time.Hour, most: time.Hour}); wait.sleep(ended) == nil {
		t.Error("a pause does not end with its context")
	}
}

func TestAWorkerEndsWhileRedisIsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease = 100 * time.Millisecond
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		produce(t, d, "invoice")
		inHand, finish := make(chan bool), make(chan bool)
		stop := work(t, d, func(context.Context, string, string, []byte) error {
			inHand <- true
			<-finish
			return nil
		})
		<-inHand
		server.Kill()
		close(finish)
		stop()
	})
}

// Redis refuses what needs memory. Streams are served all the same, and so become
// shorter; lists wait until there is room. Nothing is lost.
func TestAFullRedisLosesNoDocument(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		log := new(trial.Log)
		options.Logger = slog.New(slog.NewTextHandler(log, nil))
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		setMemory := func(most string) {
			if err := server.Client().ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
				t.Fatal(err)
			}
		}
		d := open(t, server.Client(), options)
		if _, err := d.fetch(t.Context(), "worker-1"); !errors.Is(err, redis.Nil) { // a worker has been here before
			t.Fatal(err)
		}
		produce(t, d, "a", "b", "c")
		setMemory("1")
		added := make(chan error, 1)
		go func() { added <- d.Produce(t.Context(), "acme", "d", nil) }()
		log.Await(t, `"a document is not added yet".*OOM`)
		served := new(served)
		work(t, d, served.process)
		if options.Lists {
			log.Await(t, `"no document can be fetched".*OOM`)
		} else {
			served.await(t, "a", "b", "c")
		}
		setMemory("0")
		if err := <-added; err != nil {
			t.Error(err)
		}
		served.await(t, "a", "b", "c", "d")
	})
}

func TestAQueueThatWasDeletedIsMadeAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease = 300 * time.Millisecond
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		inHand, finish := make(chan bool, 1), make(chan bool)
		served := new(served)
		work(t, d, func(ctx context.Context, customer, document string, body []byte) error {
			if document == "deleted" {
				inHand <- true
				<-finish
				return errors.New("fails") // nobody can try it again
			}
			return served.process(ctx, customer, document, body)
		})
		produce(t, d, "deleted")
		<-inHand
		if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		close(finish)
		produce(t, d, "next")
		served.await(t, "next")
	})
}

func TestAPanicCountsAsAFailure(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Backoff = []time.Duration{time.Millisecond}
		d := open(t, redistest.Start(t).Client(), options)
		produce(t, d, "invoice")
		served := new(served)
		work(t, d, func(ctx context.Context, customer, document string, body []byte) error {
			if len(served.now()) == 0 {
				_ = served.process(ctx, customer, document, body)
				panic("a bug")
			}
			return served.process(ctx, customer, document, body)
		})
		served.await(t, "invoice", "invoice")
	})
}

func TestADocumentThatTakesTooLongIsCancelledAndGivenUp(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Limit = 20 * time.Millisecond
		options.Backoff = []time.Duration{}
		log := new(trial.Log)
		options.Logger = slog.New(slog.NewTextHandler(log, nil))
		d := open(t, redistest.Start(t).Client(), options)
		produce(t, d, "endless")
		work(t, d, func(ctx context.Context, _, _ string, _ []byte) error {
			<-ctx.Done()
			return ctx.Err()
		})
		redistest.Await(t, "it is given up", func() bool {
			dead, err := d.Dead(t.Context())
			return err == nil && slices.Equal(dead, []string{"endless"})
		})
		log.Await(t, "the document took longer than 20ms")
	})
}

// A crash between the two has the document served again, and leaves nothing pending.
func TestDoneIsSaidBeforeTheDocumentIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		d := open(t, redistest.Start(t).Client(), options)
		store := new(doneFirst)
		d.store = store
		store.inQueue = func() int { return waiting(t, d) }
		produce(t, d, "invoice")
		served := new(served)
		stop := work(t, d, served.process)
		served.await(t, "invoice")
		stop()
		if store.found != 1 || waiting(t, d) != 0 {
			t.Errorf("in the queue: %d at Done, %d in the end", store.found, waiting(t, d))
		}
	})
}

// doneFirst is a store that looks what is in the queue when Done is said.
type doneFirst struct {
	memory.Store
	inQueue func() int
	found   int
}

func (s *doneFirst) Done(ctx context.Context, customer, document string, took time.Duration) error {
	s.found = s.inQueue()
	return s.Store.Done(ctx, customer, document, took)
}

func TestNothingIsLeftOfServedDocuments(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Backoff = []time.Duration{time.Millisecond}
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		for i := range 30 {
			produce(t, d, fmt.Sprint(i))
		}
		served := new(served)
		failed := make(map[string]bool)
		stop := work(t, d, func(ctx context.Context, customer, document string, body []byte) error {
			if first := !failed[document]; first {
				failed[document] = true
				return errors.New("the first time")
			}
			return served.process(ctx, customer, document, body)
		})
		redistest.Await(t, "all are served", func() bool { return len(served.now()) == 30 })
		stop()
		if err := client.Del(t.Context(), d.added).Err(); err != nil {
			t.Fatal(err)
		}
		for _, key := range client.Keys(t.Context(), "*").Val() {
			if options.Lists {
				t.Errorf("%s is left", key)
				continue
			}
			workers := client.XInfoConsumers(t.Context(), key, "workers").Val()
			if entries := client.XLen(t.Context(), key); entries.Err() != nil || entries.Val() > 0 || len(workers) > 0 {
				t.Errorf("%s is left: %v, workers %v", key, entries, workers)
			}
		}
	})
}

func TestWorkersOfTheStreamsThatAreGoneAreForgotten(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, new(Options))
	produce(t, d, "invoice", "other")
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
	d := &Documents{queues: make([]string, 9), options: Options{Weights: []int64{9, 8, 7, 6, 5, 4, 3, 2, 1}}}
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

func TestNamesAndBodiesComeOutAsTheyWentIn(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		d := open(t, redistest.Start(t).Client(), options)
		for _, name := range []string{"a b", "a\nb\r\n", `"'\`, "{}%7D", "\x00\x7f", "Ünïcode 文書 🙂", "- 1 x", "\xff\xfe"} {
			err := d.Produce(t.Context(), name, name, []byte(name))
			if options.Lists && name == "\xff\xfe" {
				pending, peek := d.store.Peek(t.Context(), name)
				if err == nil || peek != nil || pending.Pending != 0 {
					t.Errorf("%q: %v; pending %v, %v", name, err, pending, peek)
				}
				continue
			}
			if err != nil {
				t.Errorf("%q: %v", name, err)
				continue
			}
			got := fetch(t, d, "worker-1")
			if got.customer != name || got.document != name || string(got.body) != name {
				t.Errorf("%q: got %q, %q, %q", name, got.customer, got.document, got.body)
			}
			if gone, err := d.run(t.Context(), "done", got.keys, got.worker, got.id).Bool(); err != nil || !gone {
				t.Errorf("%q: done %t, %v", name, gone, err)
			}
		}
	})
}

// Producers in other languages push what they like.
func TestAnyElementOfAListIsServed(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	d := open(t, client, &Options{Lists: true})
	for element, want := range map[string]string{
		`{"customer": "acme", "document": "invoice", "body": "text"}`: "acme invoice text",
		`{"customer": "acme", "document": 7, "more": []}`:             "acme 7 ",
		`{"customer": "acme", "body": {"page": 1}}`:                   `acme  {"page":1}`,
		`{"customer": "acme", "document": NaN}`:                       "acme  ",
		`no JSON`:                                                     "  no JSON",
		`[1]`:                                                         "  [1]",
		`{"page": 1}`:                                                 `  {"page": 1}`,
		"\xff":                                                        "  \xff",
		`{"customer": null}`:                                          "  ",
	} {
		if err := client.RPush(t.Context(), d.queues[4], element).Err(); err != nil {
			t.Fatal(err)
		}
		got := fetch(t, d, "worker-1")
		if is := fmt.Sprint(got.customer, " ", got.document, " ", string(got.body)); is != want {
			t.Errorf("%q is %q, want %q", element, is, want)
		}
		d.tell(t.Context(), d.options.Logger, "failed", got, -1, "why")
	}
	if dead, err := d.Dead(t.Context()); err != nil || len(dead) != 9 {
		t.Errorf("given up: %q, %v", dead, err)
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
	produce(t, d, "done", "begun")
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
		produce(t, d, "first", "second")
		serve := func() {
			d.tell(t.Context(), d.options.Logger, "done", fetch(t, d, "worker-1"))
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

func TestAClusterHasTheQueueOnOneNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Masters[0].Addr}})
	t.Cleanup(func() { _ = client.Close() })
	for name, lists := range map[string]bool{"streams": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			d := open(t, client, &Options{Name: name, Lists: lists, Backoff: []time.Duration{}})
			produce(t, d, "a", "b", "fails")
			served := new(served)
			stop := work(t, d, func(ctx context.Context, customer, document string, body []byte) error {
				if document == "fails" {
					return errors.New("as it says")
				}
				return served.process(ctx, customer, document, body)
			})
			served.await(t, "a", "b")
			redistest.Await(t, "the other is given up", func() bool {
				dead, err := d.Dead(t.Context())
				return err == nil && slices.Equal(dead, []string{"fails"})
			})
			stop()
			if err := d.Remove(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenRefusesWhatCannotBeTheQueue(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	produce(t, open(t, client, &Options{Name: "streams"}), "invoice")
	for want, options := range map[string]*Options{
		"{streams}-1 is a stream, not a list": {Name: "streams", Lists: true},
		"has a brace":                         {Name: "{documents}"},
		"Workers -1":                          {Workers: -1},
		"Limit -1s":                           {Limit: -time.Second},
		"Poll -1s":                            {Poll: -time.Second},
		"Lease 99ms":                          {Lease: 99 * time.Millisecond},
		"Backoff [1s -1s]":                    {Backoff: []time.Duration{time.Second, -time.Second}},
		"Weights [1 1 1 1 1 1 1 1 0]":         {Weights: []int64{1, 1, 1, 1, 1, 1, 1, 1, 0}},
		"Weights [1]":                         {Weights: []int64{1}},
		"Options are nil":                     nil,
	} {
		if options != nil {
			options.Logger = slog.New(slog.DiscardHandler)
		}
		_, err := Open(t.Context(), client, new(memory.Store), options)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, priority.ErrInvalidOption) == strings.Contains(want, " is a ") {
			t.Errorf("%+v: %v, want %q", options, err, want)
		}
	}
}

// The lists are empty, but some of their documents wait, or are given up.
func TestStreamsRefuseTheDocumentsOfLists(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]any{"wait": 0, "given up": -1} {
		t.Run(name, func(t *testing.T) {
			client := redistest.Start(t).Client()
			early := open(t, client, new(Options)) // before the lists had any
			lists := open(t, client, &Options{Lists: true})
			produce(t, lists, "invoice")
			lists.tell(t.Context(), lists.options.Logger, "failed", fetch(t, lists, "worker-1"), wait, "why")
			_, err := Open(t.Context(), client, new(memory.Store), &Options{Logger: slog.New(slog.DiscardHandler)})
			if err == nil || !strings.Contains(err.Error(), "of lists") && !strings.Contains(err.Error(), "is a list") {
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

func TestAStoreThatErrsLeavesNothingInTheQueue(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		d := open(t, redistest.Start(t).Client(), options)
		d.store = errs{d.store}
		if err := d.Produce(t.Context(), "acme", "invoice", nil); !errors.Is(err, errStore) {
			t.Errorf("produced: %v", err)
		}
		if got := waiting(t, d); got != 0 {
			t.Errorf("%d documents in the queue", got)
		}
	})
}

var errStore = errors.New("the store is away")

// errs is a store whose Submit errs.
type errs struct{ priority.Store }

func (errs) Submit(context.Context, string, string) (priority.Decision, error) {
	return priority.Decision{}, errStore
}

func TestOpenWarnsOfARedisThatForgets(t *testing.T) {
	t.Parallel()
	log := new(trial.Log)
	options := &Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	open(t, redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(), options)
	log.Await(t, "maxmemory-policy=allkeys-lru")
	log.Await(t, "set appendonly yes")
}

// open opens a queue, and discards what it logs unless the options say otherwise.
func open(t *testing.T, client redis.UniversalClient, options *Options) *Documents {
	t.Helper()
	own := *options
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	d, err := Open(t.Context(), client, new(memory.Store), &own)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// produce adds documents of a customer, each of level 1.
func produce(t *testing.T, d *Documents, documents ...string) {
	t.Helper()
	produceAt(t, d, 1, documents...)
}

func produceAt(t *testing.T, d *Documents, level priority.Level, documents ...string) {
	t.Helper()
	given := *d
	given.store = givenLevel{d.store, level}
	for _, document := range documents {
		if err := given.Produce(t.Context(), "acme", document, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// givenLevel is a store whose documents all have the same level.
type givenLevel struct {
	priority.Store
	level priority.Level
}

func (s givenLevel) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	decision, err := s.Store.Submit(ctx, customer, document)
	decision.Level = s.level
	return decision, err
}

func fetch(t *testing.T, d *Documents, worker string) *delivery {
	t.Helper()
	got, err := d.fetch(t.Context(), worker)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// work has the queue work until the test ends, or the returned function is called.
func work(t *testing.T, d *Documents, process Process) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Work(ctx, process) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// waiting is how many documents are in the levels' queues.
func waiting(t *testing.T, d *Documents) int {
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

// served are the documents that were served.
type served struct {
	mutex     sync.Mutex
	documents []string
}

func (s *served) process(_ context.Context, _, document string, _ []byte) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.documents = append(s.documents, document)
	return nil
}

func (s *served) now() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return slices.Sorted(slices.Values(s.documents))
}

// await returns when just these documents were served.
func (s *served) await(t *testing.T, documents ...string) {
	t.Helper()
	redistest.Await(t, fmt.Sprintf("%q are served", documents), func() bool { return slices.Equal(s.now(), documents) })
}
