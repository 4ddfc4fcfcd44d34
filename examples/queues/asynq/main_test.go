package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/examples/queues/internal/flood"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/examples/queues/internal/servertest"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/queue"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const expected = `archive uploads 60 documents, then bakery 3 and clinic 6; then a worker starts.

In asynq level 1 is queue documents-1, and level 9 is queue documents-9.

served as no.  with the module        served as no.  without it
      1 to  3  archive 1 to 3               1 to 60  archive 1 to 60
      4 to  6  bakery 1 to 3               61 to 63  bakery 1 to 3
      7 to  9  clinic 1 to 3               64 to 69  clinic 1 to 6
     10 to 11  archive 4 to 5
     12 to 13  clinic 4 to 5
     14 to 15  archive 6 to 7
           16  clinic 6
     17 to 69  archive 8 to 60
`

func TestRun(t *testing.T) {
	var out strings.Builder
	err := run(t.Context(), "", true, &out)
	servertest.SkipIfMissing(t, err)
	if err != nil || out.String() != expected {
		t.Errorf("error %v, output\n%s\nwant\n%s", err, out.String(), expected)
	}
}

func TestOrder(t *testing.T) {
	url := servertest.Start(t, server.StartRedis)
	for _, last := range servertest.Policies {
		d := openTest(t, url, last, true)
		documents := servertest.Documents(last)
		for _, document := range documents {
			if err := d.enqueue(t.Context(), document.Level, document.String()); err != nil {
				t.Fatal(err)
			}
		}
		served, err := flood.Collect(t.Context(), len(documents), d.consume)
		if err != nil {
			t.Fatal(err)
		}
		servertest.CheckOrder(t, last, last, served)
	}

	t.Run("an urgent document overtakes", func(t *testing.T) {
		d := openTest(t, url, 9, true)
		servertest.CheckOvertaking(t, d.enqueue, d.consume)
	})

	t.Run("by weight the last level is served too, but rarely", func(t *testing.T) {
		d := openTest(t, url, 9, false)
		const each = 100
		for range each {
			for _, level := range []priority.Level{9, 1} {
				if err := d.enqueue(t.Context(), level, fmt.Sprint(level)); err != nil {
					t.Fatal(err)
				}
			}
		}
		served, err := flood.Collect(t.Context(), 2*each, d.consume)
		if err != nil {
			t.Fatal(err)
		}
		// While both have work, one in ten is of the last level: 10 of 100, give or
		// take 3. That it is none, or 40, is as good as impossible.
		ofLast := 0
		for _, level := range served[:each] {
			if level == "9" {
				ofLast++
			}
		}
		if ofLast < 1 || ofLast > 40 {
			t.Errorf("of the first %d documents %d are of the last level", each, ofLast)
		}
	})

	t.Run("a document that failed comes back at its level", func(t *testing.T) {
		d := openTest(t, url, 9, true)
		inspector := asynq.NewInspector(d.redis)
		defer inspector.Close()
		for level, document := range map[priority.Level]string{1: "fails", 5: "waits", 9: "is last"} {
			if err := d.enqueue(t.Context(), level, document); err != nil {
				t.Fatal(err)
			}
		}
		var tried []string
		_, err := flood.Collect(t.Context(), 3, func(ctx context.Context, process func(string) error) error {
			return d.consume(ctx, func(document string) error {
				tried = append(tried, document)
				switch len(tried) {
				case 1:
					return errors.New("failed")
				case 2:
					redistest.Await(t, "the retry is due", func() bool {
						info, err := inspector.GetQueueInfo(queue.Name(d.prefix, 1, 9))
						return err == nil && info.Pending == 1
					})
				}
				return process(document)
			})
		})
		if want := []string{"fails", "waits", "fails", "is last"}; err != nil || !slices.Equal(tried, want) {
			t.Errorf("tried %q, error %v; want %q", tried, err, want)
		}
	})
}

// TestNothingIsLeft: the example removes its keys from a Redis that is not its own.
func TestNothingIsLeft(t *testing.T) {
	url := servertest.Start(t, server.StartRedis)
	if err := run(t.Context(), url, false, &strings.Builder{}); err != nil {
		t.Fatal(err)
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	keys, err := client.Keys(t.Context(), "*priority-example*").Result()
	if err != nil || len(keys) > 0 {
		t.Errorf("keys %q, error %v", keys, err)
	}
}

func openTest(t *testing.T, url string, last priority.Level, strict bool) *documents {
	t.Helper()
	d, err := open(url, fmt.Sprint(t.Name(), last), last, strict)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.client.Close() })
	return d
}
