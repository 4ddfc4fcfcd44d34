package priority_test

import (
	"context"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// The benchmarks run on a real server, never on miniredis, which costs several
// times what Redis costs: go test -run '^$' -bench . -benchmem .
// What is compared with others is in the module lab.

func BenchmarkNext(b *testing.B) {
	ctx := context.Background() // one that can end costs a goroutine, as a timeout does
	names := customerNames(1000)
	for name, timeout := range map[string]time.Duration{"with the default timeout": 0, "without a timeout": -1} {
		b.Run(name, func(b *testing.B) {
			store := benchmarkedStore(b, redistest.Start(b).Client(), timeout)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := store.Next(ctx, names[i%len(names)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, names := range map[string][]string{"": names, " for one customer": names[:1]} {
		b.Run("256 callers of an AutoPipeliner"+name, func(b *testing.B) {
			store := benchmarkedStore(b, autoPipeline(b, redistest.Start(b).Client()), 0)
			b.ReportAllocs()
			b.SetParallelism(256 / runtime.GOMAXPROCS(0))
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := store.Next(ctx, names[i%len(names)]); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func BenchmarkNextN(b *testing.B) {
	const n = 10_000
	store := benchmarkedStore(b, redistest.Start(b).Client(), 0)
	for b.Loop() {
		if _, err := store.NextN(b.Context(), "acme", n); err != nil {
			b.Fatal(err)
		}
	}
	reportDocuments(b, n)
}

func BenchmarkNextEach(b *testing.B) {
	store, names := benchmarkedStore(b, redistest.Start(b).Client(), 0), customerNames(1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.NextEach(b.Context(), names); err != nil {
			b.Fatal(err)
		}
	}
	reportDocuments(b, len(names))
}

func BenchmarkSubmitAndDone(b *testing.B) {
	store := benchmarkedStore(b, redistest.Start(b).Client(), 0)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		document := strconv.Itoa(i)
		if _, err := store.Submit(b.Context(), "acme", document, 0); err != nil {
			b.Fatal(err)
		}
		if err := store.Done(b.Context(), "acme", document, time.Second); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkStoppedServer tells what calls cost that nobody answers: how long they
// take at the most, of which the timeout is 250 ms, and how much they allocate.
//
//	go test -run '^$' -bench StoppedServer -benchtime 10x -benchmem .
func BenchmarkStoppedServer(b *testing.B) {
	million := customerNames(1_000_000)
	for name, call := range map[string]func(ctx context.Context, store *priority.RedisStore) error{
		"Next": func(ctx context.Context, store *priority.RedisStore) error {
			_, err := store.Next(ctx, "acme")
			return err
		},
		"NextEach of a million": func(ctx context.Context, store *priority.RedisStore) error {
			_, err := store.NextEach(ctx, million)
			return err
		},
	} {
		b.Run(name, func(b *testing.B) {
			store := stoppedStore(b, 0)
			b.ReportAllocs()
			var most time.Duration
			for b.Loop() {
				start := time.Now()
				if err := call(b.Context(), store); err == nil {
					b.Fatal("a stopped server answers")
				}
				most = max(most, time.Since(start))
			}
			b.ReportMetric(float64(most.Milliseconds()), "ms-at-most")
		})
	}
}

func benchmarkedStore(tb testing.TB, client priority.RedisClient, timeout time.Duration) *priority.RedisStore {
	tb.Helper()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: timeout})
	if err != nil {
		tb.Fatal(err)
	}
	return store
}

// stoppedStore returns a store whose server answered once and does not any more.
func stoppedStore(tb testing.TB, timeout time.Duration) *priority.RedisStore {
	tb.Helper()
	server := redistest.Start(tb)
	store := benchmarkedStore(tb, server.Client(), timeout)
	if _, err := store.NextEach(tb.Context(), []string{"acme"}); err != nil {
		tb.Fatal(err)
	}
	server.Signal(syscall.SIGSTOP)
	tb.Cleanup(func() { server.Signal(syscall.SIGCONT) })
	return store
}

func customerNames(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "customer" + strconv.Itoa(i)
	}
	return names
}

func reportDocuments(b *testing.B, documents int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(documents), "ns/document")
}
