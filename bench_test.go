//go:build !race

package priority_test

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/redistest"
)

// The race detector is slow and allocates, so this file is built without it.
//
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
		if _, err := store.Done(b.Context(), "acme", document, time.Second); err != nil {
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

// What a call allocates is most of what it costs its process and, unlike its
// time, does not depend on the machine. The race detector allocates too, so this
// test is not built with it.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client()
	bounded, free := benchmarkedStore(t, client, time.Minute), benchmarkedStore(t, client, -1)
	batched := benchmarkedStore(t, autoPipeline(t, client), -1)
	names := customerNames(1000)

	next := func(store *priority.RedisStore) func() error {
		return func() error { _, err := store.Next(ctx, "acme"); return err }
	}
	submit := func(store *priority.RedisStore) func() error {
		return func() error { _, err := store.Submit(ctx, "acme", "invoice", 0); return err }
	}
	done := func(store *priority.RedisStore) func() error {
		return func() error { _, err := store.Done(ctx, "acme", "invoice", 0); return err }
	}
	for _, test := range []struct {
		name    string
		most    float64
		callers int
		call    func() error
	}{
		{"Next", 14, 1, next(bounded)},
		{"Next without a timeout", 7, 1, next(free)},
		// Alone on an AutoPipeliner a caller pays for a whole batch.
		{"Next of 256 callers on an AutoPipeliner, without a timeout", 4.3, 256, next(batched)},
		{"NextEach of 1000 customers", 3.1 * 1000, 1, func() error { _, err := free.NextEach(ctx, names); return err }},
		{"Submit", 17, 1, submit(bounded)},
		{"Submit without a timeout", 10, 1, submit(free)},
		{"Done", 17, 1, done(bounded)},
		{"Done without a timeout", 10, 1, done(free)},
	} {
		got := allocations(t, test.callers, test.call)
		t.Logf("%s: %.1f allocations", test.name, got)
		// A half of an allocation a call is what the client does now and then.
		if got > test.most+0.5 {
			t.Errorf("%s: %.1f allocations; at most %v", test.name, got, test.most)
		}
	}
}

// allocations returns how much is allocated by a call, on the average of many
// calls by some callers at the same time.
func allocations(t *testing.T, callers int, call func() error) float64 {
	const calls = 100 // of each caller
	all := func() {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					if err := call(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
	}
	all() // connections, buffers and the script's text
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all()
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(callers*calls)
}

// A NextEach that nobody answers does not pay for what it will not send: the
// answers of a million documents are 56 MB, decisions and errors.
func TestALargeCallOfAStoppedServerIsCheap(t *testing.T) {
	store, million := stoppedStore(t, 3*time.Second), customerNames(1_000_000)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := store.NextEach(t.Context(), million)
	runtime.ReadMemStats(&after)
	if errs := itemerrors.Of(err, len(million)); !errors.Is(errs[0], priority.ErrOutcomeUnknown) ||
		!errors.Is(errs[len(errs)-1], priority.ErrNotCounted) {
		t.Errorf("the first and the last entry: %v, %v", errs[0], errs[len(errs)-1])
	}
	allocated := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MB allocated", allocated>>20)
	if allocated > 100<<20 {
		t.Errorf("%d MB allocated; at most 100", allocated>>20)
	}
}
