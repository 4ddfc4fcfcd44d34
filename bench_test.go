package priority_test

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
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

// BenchmarkCoalescer has 256 callers send the documents of 10,000 customers, by
// Zipf's law with exponent 1.1, through an AutoPipeliner: in turns with and
// without a Coalescer around the same store. Before, the customers send until
// most documents are of customers at the lowest level, as they soon are. It takes
// its own time: go test -run '^$' -bench Coalescer -benchtime 1x
func BenchmarkCoalescer(b *testing.B) {
	const names, exponent, callers, rounds, turn = 10_000, 1.1, 256, 5, time.Second
	ctx := context.Background()
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 1)), exponent, 1, names-1)
	all := customers(names)
	traffic := make([]string, 1<<20)
	for i := range traffic {
		traffic[i] = all[zipf.Uint64()]
	}
	pipeliner, err := redistest.Start(b).Client().AutoPipeline()
	if err != nil {
		b.Fatal(err)
	}
	var calls atomic.Int64
	store := counting{must(priority.NewRedisStore(pipeliner, nil))(b), &calls}
	for range 3 {
		if _, err := store.NextEach(ctx, traffic[:100_000]); err != nil {
			b.Fatal(err)
		}
	}

	// send has all callers send for a turn.
	send := func(store priority.Store) (documents, called int64, took time.Duration) {
		calls.Store(0)
		var sent atomic.Int64
		var working sync.WaitGroup
		start := time.Now()
		for caller := range callers {
			working.Go(func() {
				n := 0
				for i := caller * len(traffic) / callers; time.Since(start) < turn; i++ {
					if _, err := store.Next(ctx, traffic[i%len(traffic)]); err != nil {
						b.Error(err)
						return
					}
					n++
				}
				sent.Add(int64(n))
			})
		}
		working.Wait()
		return sent.Load(), calls.Load(), time.Since(start)
	}
	for b.Loop() {
		coalescer := must(priority.NewCoalescer(store, nil))(b)
		send(coalescer) // fills its memory
		var with, without, callsWith int64
		var tookWith, tookWithout time.Duration
		for range rounds {
			documents, _, took := send(store)
			without, tookWithout = without+documents, tookWithout+took
			documents, called, took := send(coalescer)
			with, tookWith, callsWith = with+documents, tookWith+took, callsWith+called
		}
		calls.Store(0)
		if err := coalescer.Close(ctx); err != nil {
			b.Fatal(err)
		}
		callsWith += calls.Load()
		perSecond, perSecondWithout := float64(with)/tookWith.Seconds(), float64(without)/tookWithout.Seconds()
		b.ReportMetric(perSecond, "decisions/s")
		b.ReportMetric(perSecondWithout, "decisions/s-without")
		b.ReportMetric(perSecond/perSecondWithout, "times")
		b.ReportMetric(float64(callsWith)/float64(with), "calls/decision")
	}
}

// counting is a RedisStore whose calls are counted.
type counting struct {
	*priority.RedisStore
	calls *atomic.Int64
}

func (c counting) Next(ctx context.Context, customer string) (priority.Decision, error) {
	c.calls.Add(1)
	return c.RedisStore.Next(ctx, customer)
}

func (c counting) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	c.calls.Add(1)
	return c.RedisStore.NextN(ctx, customer, n)
}

func (c counting) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	c.calls.Add(1)
	return c.RedisStore.Peek(ctx, customer)
}

// BenchmarkCoalescerFromMemory tells what an answer from memory costs.
func BenchmarkCoalescerFromMemory(b *testing.B) {
	ctx := context.Background()
	all := customers(1000)
	coalescer := must(priority.NewCoalescer(new(priority.MemoryStore), &priority.CoalescerOptions{Interval: 400 * time.Second}))(b)
	for _, customer := range all {
		if _, err := coalescer.NextN(ctx, customer, 30); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		for i := rand.IntN(len(all)); pb.Next(); i++ {
			if decision, err := coalescer.Next(ctx, all[i%len(all)]); err != nil || !decision.Estimated {
				b.Error(decision, err)
				return
			}
		}
	})
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
