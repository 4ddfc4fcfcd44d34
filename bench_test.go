package priority_test

import (
	"context"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// The benchmarks run on a real server, never on miniredis, which costs several
// times what Redis costs: go test -run '^$' -bench . -benchmem

func benchmarkStore(b *testing.B, opts *priority.RedisOptions) *priority.RedisStore {
	b.Helper()
	store, err := priority.NewRedisStore(redistest.Start(b).Client(), opts)
	if err != nil {
		b.Fatal(err)
	}
	return store
}

func customers(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = "customer" + strconv.Itoa(i)
	}
	return names
}

func BenchmarkNext(b *testing.B) {
	ctx := context.Background()
	names := customers(1000)
	for name, timeout := range map[string]time.Duration{"with the default timeout": 0, "without a timeout": -1} {
		b.Run(name, func(b *testing.B) {
			store := benchmarkStore(b, &priority.RedisOptions{Timeout: timeout})
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, err := store.Next(ctx, names[i%len(names)]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("256 callers of an AutoPipeliner", func(b *testing.B) {
		pipeliner, err := redistest.Start(b).Client().AutoPipeline()
		if err != nil {
			b.Fatal(err)
		}
		store, err := priority.NewRedisStore(pipeliner, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.SetParallelism(128)
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			for i := 0; pb.Next(); i++ {
				if _, err := store.Next(ctx, names[i%len(names)]); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("MemoryStore", func(b *testing.B) {
		var store priority.MemoryStore
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := store.Next(ctx, names[i%len(names)]); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkNextN(b *testing.B) {
	store := benchmarkStore(b, nil)
	for b.Loop() {
		if _, err := store.NextN(context.Background(), "acme", 10_000); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/document")
}

func BenchmarkNextEach(b *testing.B) {
	store := benchmarkStore(b, nil)
	names := customers(1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := store.NextEach(context.Background(), names); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(names)), "ns/document")
}

// BenchmarkTimeoutOverrun tells by how much a call of a stopped server outlasts
// its timeout, at the most.
func BenchmarkTimeoutOverrun(b *testing.B) {
	for _, kind := range []string{"Client", "AutoPipeline"} {
		b.Run(kind, func(b *testing.B) {
			server := redistest.Start(b)
			client := redis.NewClient(&redis.Options{Addr: server.Addr})
			defer client.Close()
			var any priority.RedisClient = client
			if kind == "AutoPipeline" {
				any, _ = client.AutoPipeline()
			}
			store, err := priority.NewRedisStore(any, nil)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := store.Next(context.Background(), "acme"); err != nil {
				b.Fatal(err)
			}
			server.Signal(syscall.SIGSTOP)
			defer server.Signal(syscall.SIGCONT)
			var most time.Duration
			for b.Loop() {
				start := time.Now()
				if _, err := store.Next(context.Background(), "acme"); err == nil {
					b.Fatal("a stopped server answers")
				}
				most = max(most, time.Since(start)-250*time.Millisecond)
			}
			b.ReportMetric(float64(most.Microseconds())/1000, "ms-overrun")
		})
	}
}

// BenchmarkFallbackRecovery tells how long after a server is back a Fallback
// answers from it again.
func BenchmarkFallbackRecovery(b *testing.B) {
	server := redistest.Start(b)
	store, err := priority.NewRedisStore(server.Client(), nil)
	if err != nil {
		b.Fatal(err)
	}
	fallback := priority.NewFallback(store, nil, nil)
	next := func() priority.Decision {
		decision, err := fallback.Next(context.Background(), "acme")
		if err != nil {
			b.Fatal(err)
		}
		return decision
	}
	var most time.Duration
	for b.Loop() {
		server.Kill()
		for !fallback.Degraded() {
			next()
		}
		server.Restart()
		start := time.Now()
		for next().Degraded {
			time.Sleep(time.Millisecond)
		}
		most = max(most, time.Since(start))
	}
	b.ReportMetric(float64(most.Milliseconds()), "ms-at-most")
}
