//go:build !race

package priority_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/itemerrors"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// The race detector is slow and allocates, so this file is built without it. Module lab has
// benchmarks.

// What a call allocates is most of what it costs its process and, unlike its
// time, does not depend on the machine.
func TestAllocations(t *testing.T) {
	ctx := context.Background()
	client := redistest.Start(t).Client()
	bounded := openStore(t, client, &priority.RedisOptions{Timeout: time.Minute})
	free := openStore(t, client, &priority.RedisOptions{Timeout: -1})
	batched := openStore(t, autoPipeline(t, client), &priority.RedisOptions{Timeout: -1})
	names := numbered("customer", 1000)

	next := func(store *priority.RedisStore) func() error {
		return func() error { _, err := store.Next(ctx, "acme"); return err }
	}
	submit := func(store *priority.RedisStore) func() error {
		return func() error { _, err := store.Submit(ctx, "acme", priority.Document{ID: "invoice"}); return err }
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
func TestNextEach_StoppedServer(t *testing.T) {
	server, million := redistest.Start(t), numbered("customer", 1_000_000)
	store := openStore(t, server.Client(), &priority.RedisOptions{Timeout: 3 * time.Second})
	if _, err := store.NextEach(t.Context(), []string{"acme"}); err != nil {
		t.Fatal(err)
	}
	server.Signal(syscall.SIGSTOP)
	t.Cleanup(func() { server.Signal(syscall.SIGCONT) })
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
