package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

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
		produce(t, d, "a", "b", "c", "d", "e", "f")
		var begun atomic.Int32
		finish := make(chan bool)
		served := new(served)
		stop := work(t, d, func(ctx context.Context, customer, document string, body []byte) error {
			begun.Add(1)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-finish:
				return served.process(ctx, customer, document, body)
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
		served.await(t, "a", "b", "c", "d", "e", "f")
		stop()
		if dead, err := d.Dead(t.Context()); err != nil || len(dead) > 0 || begun.Load() != 6 {
			t.Errorf("given up: %q, %v; begun %d times", dead, err, begun.Load())
		}
	})
}

// Who has lost Redis from sight does not know who else has: it leaves the documents
// of lost workers to others for a while, and serves what is new.
func TestAProcessThatLostRedisTakesNoDocumentsOfOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, options *Options) {
		options.Lease = 2 * time.Second
		d := open(t, redistest.Start(t).Client(), options)
		produce(t, d, "lost")
		fetch(t, d, "worker-1")
		redistest.Await(t, "its lease is over", func() bool { return overdue(t, d) == 1 })
		d.unreached.Store(time.Now().UnixMilli())
		produce(t, d, "new")
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
func overdue(t *testing.T, d *Documents) int {
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
			d.tell(t.Context(), d.options.Logger, "failed", got, 1, "why")
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
			produce(t, d, want[i])
			d.tell(t.Context(), d.options.Logger, "failed", fetch(t, d, "worker-1"), -1, "why")
		}
		if _, err := d.Dead(t.Context()); err != nil { // Redis knows the script from now on
			t.Fatal(err)
		}
		if err := client.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		if dead, err := d.Dead(t.Context()); err != nil || !slices.Equal(dead, want) {
			t.Errorf("given up: %q, %v", dead, err)
		}
		if calls := redistest.Calls(t, client)["evalsha"]; calls != 3 {
			t.Errorf("%d calls for 50 documents, want one for each 20", calls)
		}
	})
}
