package fleet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/observe"
)

// BenchmarkServerTime measures what reports cost Redis, relative to the decisions of a
// process that makes a hundred a second: five hundred a report. An iteration is a minute
// of such a process, without its pauses, among a hundred others.
func BenchmarkServerTime(b *testing.B) {
	for _, rule := range []string{"Next", "Submit"} {
		b.Run(rule, func(b *testing.B) {
			client, ctx := redistest.Start(b).Client(), b.Context()
			store, err := priority.NewRedisStore(client, &priority.RedisOptions{Overrides: true, Timeout: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			c := newCollector(time.Now())
			observed, err := observe.New(store, c.observe)
			if err != nil {
				b.Fatal(err)
			}
			decide := func(i int) error {
				customer := fmt.Sprint("customer ", i%200)
				if rule == "Next" {
					_, err := observed.Next(ctx, customer)
					return err
				}
				document := fmt.Sprint("document ", i)
				if _, err := observed.Submit(ctx, customer, document, 0); err != nil {
					return err
				}
				_, err := observed.Done(ctx, customer, document, 0)
				return err
			}
			var writers []*writer
			for i := range 100 {
				w := newWriter(client, defaultPrefix, strconv.Itoa(i), nil)
				defer w.stop()
				if err := w.write(ctx, []byte("{}")); err != nil {
					b.Fatal(err)
				}
				writers = append(writers, w)
			}
			size := 0
			var decisions, reports, shares []float64
			for minute := 0; minute < b.N; minute++ {
				w := writers[minute%len(writers)]
				if err := w.list(ctx, []byte("{}")); err != nil { // it may have ended
					b.Fatal(err)
				}
				if err := client.ConfigResetStat(ctx).Err(); err != nil {
					b.Fatal(err)
				}
				var report []byte
				for range 11 {
					for i := range 500 {
						if err := decide(i); err != nil {
							b.Fatal(err)
						}
					}
					r := Report{ID: w.id, Name: "worker", Host: "host", Language: "go", Levels: 9}
					c.fill(&r, time.Now())
					report = r.fit()
					if renewed, err := w.renew(ctx, report); !renewed {
						b.Fatal(err)
					}
				}
				scripts := usec(b, client, "evalsha")
				sets := usec(b, client, "set")
				if err := w.list(ctx, report); err != nil {
					b.Fatal(err)
				}
				all := sets + usec(b, client, "evalsha") - scripts
				reports, decisions = append(reports, all/12), append(decisions, scripts/(11*500))
				shares = append(shares, 100*all/(scripts*12/11))
				size = len(report)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(size), "bytes/report")
			b.ReportMetric(median(reports), "µs/report")
			b.ReportMetric(median(decisions), "µs/decision")
			b.ReportMetric(median(shares), "%")
		})
	}
}

// median is of minutes: other programs of the machine disturb single ones.
func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// usec returns for how many microseconds a command has kept Redis, since its statistics
// were reset.
func usec(b *testing.B, client *redis.Client, command string) float64 {
	info, err := client.Info(b.Context(), "commandstats").Result()
	if err != nil {
		b.Fatal(err)
	}
	_, stat, _ := strings.Cut(info, "cmdstat_"+command+":")
	_, stat, _ = strings.Cut(stat, "usec=")
	stat, _, _ = strings.Cut(stat, ",")
	usec, err := strconv.ParseFloat(stat, 64)
	if err != nil {
		b.Fatal(err, info)
	}
	return usec
}

// BenchmarkObserve measures what a call costs its caller for the report.
func BenchmarkObserve(b *testing.B) {
	names := make([]string, 10_000)
	for i := range names {
		names[i] = fmt.Sprint("customer ", i)
	}
	for _, customers := range []int{100, 10_000} {
		b.Run(fmt.Sprint(customers, " customers"), func(b *testing.B) {
			began := time.Now()
			c := newCollector(began)
			call := next(began, "", 3)
			call.Customers = make([]string, 1)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				call.Customers[0] = names[i*7919%customers]
				c.observe(b.Context(), call)
			}
		})
	}
}
