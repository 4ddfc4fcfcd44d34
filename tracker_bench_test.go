package priority_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// BenchmarkTracker tells what the calls of a tracker cost the server, by its own
// statistics, with few and with many documents of one customer: the mean of the
// script calls, and the longest.
//
//	go test -run '^$' -bench BenchmarkTracker -benchtime 20000x
func BenchmarkTracker(b *testing.B) {
	ctx := context.Background()
	for _, test := range []struct {
		name  string
		held  int // documents
		ended bool
	}{
		{"1 pending", 1, false},
		{"100000 pending", manyPending, false},
		{"100000 ended", manyPending, true},
	} {
		b.Run(test.name, func(b *testing.B) {
			for name, call := range map[string]func(t *priority.RedisTracker, i int) error{
				"Submit": func(t *priority.RedisTracker, i int) error {
					_, err := t.Submit(ctx, "acme", "new "+strconv.Itoa(i))
					return err
				},
				"Submit again": func(t *priority.RedisTracker, i int) error {
					_, err := t.Submit(ctx, "acme", "old "+strconv.Itoa(i%test.held))
					return err
				},
				"Done": func(t *priority.RedisTracker, i int) error {
					return t.Done(ctx, "acme", "old "+strconv.Itoa(i%test.held))
				},
				"Peek": func(t *priority.RedisTracker, i int) error {
					_, err := t.Peek(ctx, "acme")
					return err
				},
			} {
				b.Run(name, func(b *testing.B) {
					client := redistest.Start(b).Client()
					tracker := openTracker(b, client, patient)
					if _, err := tracker.SubmitN(ctx, "acme", documentIDs("old", test.held)); err != nil {
						b.Fatal(err)
					}
					if test.ended {
						endLeases(b, client, tracker.PendingKey("acme"))
					}
					if err := call(tracker, 0); err != nil { // the server knows the script from now
						b.Fatal(err)
					}
					cost := startCost(b, client)
					for i := 1; b.Loop(); i++ {
						if err := call(tracker, i); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					cost.add(b)
					cost.report(b)
				})
			}
		})
	}
}

// BenchmarkTrackerAtOnce tells the same of calls with 100,000 documents each, for
// which the script is called many times.
//
//	go test -run '^$' -bench BenchmarkTrackerAtOnce -benchtime 5x
func BenchmarkTrackerAtOnce(b *testing.B) {
	ctx := context.Background()
	ids := documentIDs("invoice", manyPending)
	for _, measured := range []string{"SubmitN", "SubmitN again", "DoneN"} {
		b.Run(measured, func(b *testing.B) {
			client := redistest.Start(b).Client()
			tracker := openTracker(b, client, patient)
			cost := startCost(b, client)
			step := func(name string, call func() error) {
				b.Helper()
				if name == measured {
					b.StartTimer()
					cost.reset(b)
					defer cost.add(b)
					defer b.StopTimer()
				}
				if err := call(); err != nil {
					b.Fatal(err)
				}
			}
			submit := func() error { _, err := tracker.SubmitN(ctx, "acme", ids); return err }
			for range b.N {
				b.StopTimer()
				step("SubmitN", submit)
				step("SubmitN again", submit)
				step("DoneN", func() error { return tracker.DoneN(ctx, "acme", ids) })
			}
			cost.report(b)
		})
	}
}

// BenchmarkTrackerExpiry tells what a Peek costs the server that finds 100,000
// pending documents expired with their key: Redis frees them there and then, or in
// the background if lazyfree-lazy-expire says so.
//
//	go test -run '^$' -bench BenchmarkTrackerExpiry -benchtime 5x
func BenchmarkTrackerExpiry(b *testing.B) {
	ctx := context.Background()
	for _, lazy := range []string{"no", "yes"} {
		b.Run("lazyfree-lazy-expire "+lazy, func(b *testing.B) {
			client := redistest.Start(b, "--lazyfree-lazy-expire", lazy, "--enable-debug-command", "yes").Client()
			tracker := openTracker(b, client, patient)
			ids := documentIDs("invoice", manyPending)
			// The server itself must not come to it first.
			if err := client.Do(ctx, "debug", "set-active-expire", "0").Err(); err != nil {
				b.Fatal(err)
			}
			cost := startCost(b, client)
			for range b.N {
				b.StopTimer()
				if _, err := tracker.SubmitN(ctx, "acme", ids); err != nil {
					b.Fatal(err)
				}
				if _, err := tracker.Peek(ctx, "acme"); err != nil { // the server knows the script
					b.Fatal(err)
				}
				client.PExpire(ctx, tracker.PendingKey("acme"), time.Millisecond)
				time.Sleep(2 * time.Millisecond)
				cost.reset(b)
				b.StartTimer()
				if _, err := tracker.Peek(ctx, "acme"); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				cost.add(b)
			}
			cost.report(b)
		})
	}
}

// cost is what script calls have cost a server.
type cost struct {
	client           *redis.Client
	calls, usec      float64
	longest          time.Duration
	overAMillisecond int
}

func startCost(b *testing.B, client *redis.Client) *cost {
	b.Helper()
	c := &cost{client: client}
	c.reset(b)
	b.ResetTimer()
	return c
}

// reset begins to look.
func (c *cost) reset(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	for _, err := range []error{
		c.client.ConfigSet(ctx, "slowlog-log-slower-than", "100").Err(),
		c.client.ConfigSet(ctx, "slowlog-max-len", "100000").Err(),
		c.client.Do(ctx, "slowlog", "reset").Err(),
		c.client.ConfigResetStat(ctx).Err(),
	} {
		if err != nil {
			b.Fatal(err)
		}
	}
}

// add adds what there was since.
func (c *cost) add(b *testing.B) {
	b.Helper()
	ctx := context.Background()
	for line := range strings.Lines(c.client.Info(ctx, "commandstats").Val()) {
		if strings.HasPrefix(line, "cmdstat_eval") {
			var calls, usec float64
			_, rest, _ := strings.Cut(line, ":")
			if _, err := fmt.Sscanf(rest, "calls=%f,usec=%f,", &calls, &usec); err != nil {
				b.Fatal(err)
			}
			c.calls, c.usec = c.calls+calls, c.usec+usec
		}
	}
	for _, entry := range c.client.SlowLogGet(ctx, 100_000).Val() {
		if strings.HasPrefix(strings.ToLower(entry.Args[0]), "eval") {
			c.longest = max(c.longest, entry.Duration)
			if entry.Duration > time.Millisecond {
				c.overAMillisecond++
			}
		}
	}
}

func (c *cost) report(b *testing.B) {
	b.Helper()
	b.ReportMetric(c.usec/c.calls, "server-µs/call")
	b.ReportMetric(float64(c.longest.Microseconds()), "server-µs-longest")
	b.ReportMetric(float64(c.overAMillisecond)/c.calls*100, "%-over-1ms")
}
