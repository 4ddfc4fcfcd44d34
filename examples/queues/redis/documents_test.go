package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/trial"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/queue"
	priorityredis "github.com/docpriority/priority/queue/redis"
	"github.com/redis/go-redis/v9"
)

// Two operators retry the same letters, at the same time and again.
func TestALetterIsRetriedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Backoff = []time.Duration{}
		d := open(t, redistest.Start(t).Client(), options)
		d.SendAt(1, "one")
		stop := d.Serve(func(context.Context, string) error { return errors.New("fails") })
		d.AwaitDead("one")
		stop()
		letters, err := d.Queue.Dead(t.Context())
		if err != nil || len(letters) != 1 || letters[0].Customer != "acme" || letters[0].Reason != "fails" || letters[0].Tries != 1 || letters[0].At.IsZero() {
			t.Fatalf("dead %+v, %v", letters, err)
		}
		d.Store.SetLevel("one", 7) // of its customer now
		retry := func() {
			if err := d.Retry(t.Context(), letters[0]); err != nil {
				t.Error(err)
			}
		}
		var operators sync.WaitGroup
		for range 5 {
			operators.Go(retry)
		}
		operators.Wait()
		if waiting, ofLevel := d.waiting(), d.waitingAt(7); waiting != 1 || ofLevel != 1 {
			t.Errorf("the queue has it %d times, %d at level 7", waiting, ofLevel)
		}
		d.Process(func(_ context.Context, customer, document string, body []byte) error {
			if customer != "acme" || document != "one" || len(body) > 0 {
				t.Errorf("%q of %q with %q", document, customer, body)
			}
			return nil
		})
		d.AwaitServed("one")
		retry()
		d.AwaitNothingPending()
		if dead, err := d.Queue.Dead(t.Context()); err != nil || len(dead) > 0 {
			t.Errorf("dead %+v, %v", dead, err)
		}
	})
}

// Somebody else's document has no customer, or no id.
func TestADocumentOfNobodyIsServedWithoutDone(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Backoff = []time.Duration{}
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		d.Store.OnDone = func(document string, _ time.Duration) { t.Errorf("Done of %q", document) }
		var err error
		if options.Lists {
			err = client.RPush(t.Context(), "{documents}-5", `{"customer": "acme", "body": "text"}`).Err()
		} else {
			values := []any{"customer", "acme", "body", "text"}
			err = client.XAdd(t.Context(), &redis.XAddArgs{Stream: "{documents}-5", Values: values}).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		stop := d.Serve(func(context.Context, string) error { return errors.New("fails") })
		d.AwaitDead("")
		stop()
		letters, err := d.Queue.Dead(t.Context())
		if err != nil || len(letters) != 1 {
			t.Fatalf("dead %+v, %v", letters, err)
		}
		if err := d.Retry(t.Context(), letters[0]); err != nil || d.waitingAt(5) != 1 {
			t.Errorf("%d wait where it was, %v", d.waitingAt(5), err)
		}
		d.Process(func(_ context.Context, customer, _ string, body []byte) error {
			if customer != "acme" || string(body) != "text" {
				t.Errorf("%q of %q", body, customer)
			}
			return nil
		})
		d.AwaitServed("")
	})
}

// A name that the store refuses holds up no Retry.
func TestALetterWithANameTooLongIsRetried(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Backoff = []time.Duration{}
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		d.Store.OnDone = func(document string, _ time.Duration) { t.Errorf("Done of %q", document) }
		long, err := strings.Repeat("x", 513), error(nil)
		if options.Lists {
			err = client.RPush(t.Context(), "{documents}-5", `{"customer": "`+long+`", "document": "one", "body": ""}`).Err()
		} else {
			values := []any{"customer", long, "document", "one", "body", ""}
			err = client.XAdd(t.Context(), &redis.XAddArgs{Stream: "{documents}-5", Values: values}).Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		stop := d.Serve(func(context.Context, string) error { return errors.New("fails") })
		d.AwaitDead("one")
		stop()
		letters, err := d.Queue.Dead(t.Context())
		if err != nil || len(letters) != 1 {
			t.Fatalf("dead %+v, %v", letters, err)
		}
		if err := d.Retry(t.Context(), letters[0]); err != nil || d.waitingAt(5) != 1 {
			t.Errorf("%d wait where it was, %v", d.waitingAt(5), err)
		}
	})
}

// Two documents without an id are two.
func TestADocumentWithoutAnIDGetsOne(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		d := open(t, redistest.Start(t).Client(), options)
		for range 2 {
			if err := d.Add(t.Context(), "acme", "", nil); err != nil {
				t.Fatal(err)
			}
		}
		d.Serve(nil)
		redistest.Await(t, "both are served", func() bool { return len(d.Served()) == 2 })
		if served := d.Served(); served[0] == "" || served[0] == served[1] {
			t.Errorf("served %q", served)
		}
		d.AwaitNothingPending()
	})
}

func TestALostReplyAddsADocumentOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		server := redistest.Start(t)
		proxy := redistest.StartProxy(t, server.Addr)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr})
		t.Cleanup(func() { _ = client.Close() })
		d := open(t, client, options)
		d.SendAt(1, "earlier") // Redis knows the script, and the client has a connection
		proxy.Set(redistest.Cut)
		produced := make(chan error)
		go func() { produced <- d.Add(t.Context(), "acme", "invoice", nil) }()
		direct := open(t, server.Client(), options)
		redistest.Await(t, "the document is added", func() bool { return direct.waiting() == 2 })
		proxy.Set(redistest.None)
		if err := <-produced; err != nil {
			t.Fatal(err)
		}
		if got := d.waiting(); got != 2 {
			t.Errorf("the document was added %d times", got-1)
		}
	})
}

func TestCancelEndsAWorkerThatWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Poll = time.Hour
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		stop := d.Serve(nil)
		redistest.Await(t, "it has looked for documents", func() bool {
			return redistest.Calls(t, server.Client())["evalsha"] > 10
		})
		stop()
	})
}

func TestAWorkerEndsWhileRedisIsAway(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Lease = 100 * time.Millisecond
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		d.SendAt(1, "invoice")
		inHand, finish := make(chan bool), make(chan bool)
		stop := d.Serve(func(context.Context, string) error {
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
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		log := new(trial.Log)
		options.Logger = slog.New(slog.NewTextHandler(log, nil))
		server := redistest.Start(t, "--maxmemory-policy", "noeviction")
		setMemory := func(most string) {
			if err := server.Client().ConfigSet(t.Context(), "maxmemory", most).Err(); err != nil {
				t.Fatal(err)
			}
		}
		d := open(t, server.Client(), options)
		d.SendAt(1, "earlier")
		stop := d.Serve(nil) // a worker has been here before
		d.AwaitServed("earlier")
		stop()
		d.SendAt(1, "a", "b", "c")
		setMemory("1")
		added := make(chan error, 1)
		go func() { added <- d.Add(t.Context(), "acme", "d", nil) }()
		log.Await(t, `"a document is not added yet".*OOM`)
		d.Serve(nil)
		if options.Lists {
			log.Await(t, `"no document can be fetched".*OOM`)
		} else {
			d.AwaitServed("earlier", "a", "b", "c")
		}
		setMemory("0")
		if err := <-added; err != nil {
			t.Error(err)
		}
		d.AwaitServed("earlier", "a", "b", "c", "d")
	})
}

func TestAQueueThatWasDeletedIsMadeAgain(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Lease = 300 * time.Millisecond
		server := redistest.Start(t)
		d := open(t, server.Client(), options)
		inHand, finish := make(chan bool, 1), make(chan bool)
		d.Serve(func(ctx context.Context, document string) error {
			if document == "deleted" {
				inHand <- true
				<-finish
				return errors.New("fails") // nobody can try it again
			}
			return nil
		})
		d.SendAt(1, "deleted")
		<-inHand
		if err := server.Client().FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		close(finish)
		d.SendAt(1, "next")
		d.AwaitServed("next")
	})
}

// A crash between the two has the document served again, and leaves nothing pending.
func TestDoneIsSaidBeforeTheDocumentIsRemoved(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		d := open(t, redistest.Start(t).Client(), options)
		found := -1
		d.Store.OnDone = func(string, time.Duration) { found = d.waiting() }
		d.SendAt(1, "invoice")
		stop := d.Serve(nil)
		d.AwaitServed("invoice")
		stop()
		if found != 1 || d.waiting() != 0 {
			t.Errorf("in the queue: %d at Done, %d in the end", found, d.waiting())
		}
	})
}

func TestNothingIsLeftOfServedDocuments(t *testing.T) {
	onBoth(t, func(t *testing.T, options *priorityredis.Options) {
		options.Backoff = []time.Duration{time.Millisecond}
		client := redistest.Start(t).Client()
		d := open(t, client, options)
		for i := range 30 {
			d.SendAt(1, fmt.Sprint(i))
		}
		failed := make(map[string]bool)
		stop := d.Serve(func(ctx context.Context, document string) error {
			if first := !failed[document]; first {
				failed[document] = true
				return errors.New("the first time")
			}
			return nil
		})
		redistest.Await(t, "all are served", func() bool { return len(d.Served()) == 30 })
		stop()
		if err := client.Del(t.Context(), "{documents}-added").Err(); err != nil {
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

func TestAClusterHasTheQueueOnOneNode(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{cluster.Masters[0].Addr}})
	t.Cleanup(func() { _ = client.Close() })
	for name, lists := range map[string]bool{"streams": false, "lists": true} {
		t.Run(name, func(t *testing.T) {
			d := open(t, client, &priorityredis.Options{Name: name, Lists: lists, Backoff: []time.Duration{}})
			d.SendAt(1, "a", "b", "fails")
			stop := d.Serve(func(ctx context.Context, document string) error {
				if document == "fails" {
					return errors.New("as it says")
				}
				return nil
			})
			d.AwaitServed("a", "b")
			d.AwaitDead("fails")
			stop()
		})
	}
}

func TestOpenRefusesWhatCannotBeTheQueue(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	open(t, client, &priorityredis.Options{Name: "streams"}).Send("invoice")
	for want, options := range map[string]*priorityredis.Options{
		"{streams}-1 is a stream, not a list": {Name: "streams", Lists: true},
		"has a brace":                         {Name: "{documents}"},
		"Workers -1":                          {Workers: -1},
		"Limit -1s":                           {Limit: -time.Second},
		"Poll -1s":                            {Poll: -time.Second},
		"Lease 99ms":                          {Lease: 99 * time.Millisecond},
		"Backoff [1s -1s]":                    {Backoff: []time.Duration{time.Second, -time.Second}},
		"Weights [1 1 1 1 1 1 1 1 0]":         {Weights: []int64{1, 1, 1, 1, 1, 1, 1, 1, 0}},
		"Weights [1]":                         {Weights: []int64{1}},
	} {
		options.Logger = slog.New(slog.DiscardHandler)
		_, err := priorityredis.Open(t.Context(), client, new(memory.Store), options)
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, priority.ErrInvalidOption) == strings.Contains(want, " is a ") {
			t.Errorf("%+v: %v, want %q", options, err, want)
		}
	}
}

func TestOpenWaitsForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := priorityredis.Open(short, client, new(memory.Store), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	log := new(trial.Log)
	opened := make(chan error, 1)
	go func() {
		_, err := priorityredis.Open(t.Context(), client, new(memory.Store), &priorityredis.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		opened <- err
	}()
	log.Await(t, "waiting for Redis")
	server.Restart()
	if err := <-opened; err != nil {
		t.Error(err)
	}
}

func TestOpenWarnsOfARedisThatForgets(t *testing.T) {
	t.Parallel()
	log := new(trial.Log)
	options := &priorityredis.Options{Logger: slog.New(slog.NewTextHandler(log, nil))}
	open(t, redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(), options)
	log.Await(t, "maxmemory-policy=allkeys-lru")
	log.Await(t, "set appendonly yes")
}

// opened is a queue that is tried in this process.
type opened struct {
	*priorityredis.Queue
	*trial.Bench
	t      *testing.T
	client redis.UniversalClient
	lists  bool
}

// open opens a queue, and discards what it logs unless the options say otherwise.
func open(t *testing.T, client redis.UniversalClient, options *priorityredis.Options) *opened {
	t.Helper()
	own, store := *options, new(trial.Store)
	if own.Logger == nil {
		own.Logger = slog.New(slog.DiscardHandler)
	}
	q, err := priorityredis.Open(t.Context(), client, store, &own)
	if err != nil {
		t.Fatal(err)
	}
	words := &program.Functions{
		OnProduce: q.Add, OnWork: q.Work, OnDead: program.IDs(q.Dead, func(l priorityredis.Letter) string { return l.Document }),
	}
	return &opened{q, trial.NewBench(t, words, store), t, client, own.Lists}
}

// waiting is how many documents are in the levels' queues, in hand or not.
func (d *opened) waiting() (count int) {
	d.t.Helper()
	for level := range priority.Level(9) {
		count += d.waitingAt(level + 1)
	}
	return count
}

func (d *opened) waitingAt(level priority.Level) int {
	d.t.Helper()
	key := queue.Name("{documents}", level, 9)
	if d.lists {
		return int(d.client.LLen(d.t.Context(), key).Val() + d.client.ZCard(d.t.Context(), key+"-later").Val())
	}
	return int(d.client.XLen(d.t.Context(), key).Val())
}
