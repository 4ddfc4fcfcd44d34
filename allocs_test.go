//go:build !race

package priority_test

import (
	"context"
	"runtime"
	"sync"
	"testing"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// What a call allocates is most of what it costs its process and, unlike its
// time, does not depend on the machine. The race detector allocates too, so this
// test is not built with it.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client()
	pipeliner, err := client.AutoPipeline()
	if err != nil {
		t.Fatal(err)
	}
	unbounded := &priority.RedisOptions{Timeout: -1}
	next := func(client priority.RedisClient, opts *priority.RedisOptions) func() {
		store := openStore(t, client, opts)
		return func() {
			if _, err := store.Next(ctx, "acme"); err != nil {
				t.Error(err)
			}
		}
	}
	nextEach := func() func() {
		store, thousand := openStore(t, client, unbounded), customers(1000)
		return func() {
			if _, err := store.NextEach(ctx, thousand); err != nil {
				t.Error(err)
			}
		}
	}
	fromMemory := func() func() {
		coalescer := must(priority.NewCoalescer(openStore(t, client, patient), nil))(t)
		if _, err := coalescer.NextN(ctx, "acme", 30); err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, err := coalescer.Next(ctx, "acme"); err != nil {
				t.Error(err)
			}
		}
	}
	for _, test := range []struct {
		name    string
		most    float64
		callers int
		call    func()
	}{
		{"Next", 11, 1, next(client, nil)},
		{"Next without a timeout", 7, 1, next(client, unbounded)},
		// Alone on an AutoPipeliner a caller pays for a whole batch.
		{"Next of 256 callers on an AutoPipeliner, without a timeout", 4.3, 256, next(pipeliner, unbounded)},
		{"NextEach of 1000 customers", 3.1 * 1000, 1, nextEach()},
		{"Next of a Coalescer, from memory", 0, 1, fromMemory()},
	} {
		got := allocations(test.callers, test.call)
		t.Logf("%s: %.1f allocations", test.name, got)
		// A half of an allocation a call is what the client does now and then.
		if got > test.most+0.5 {
			t.Errorf("%s: %.1f allocations; at most %v", test.name, got, test.most)
		}
	}
}

// allocations returns how much is allocated by a call, on the average of many
// calls by some callers at the same time.
func allocations(callers int, call func()) float64 {
	const calls = 100 // of each caller
	all := func() {
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range calls {
					call()
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
