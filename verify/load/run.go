package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/docpriority/priority/internal/ledger"
)

// run puts the load on the server until the time or the calls are over or the
// context ends, and then compares what the callers were told with the counts.
// Once the load has begun there is a report, whatever fails then.
func run(ctx context.Context, cfg config) (*report, error) {
	if cfg.prefix == "" {
		cfg.prefix = "load-" + rand.Text()[:10]
	}
	before := runtime.NumGoroutine()
	book := new(ledger.Ledger)
	t, err := open(cfg, book)
	if err != nil {
		return nil, err
	}
	if err := t.client.Ping(ctx).Err(); err != nil {
		return nil, errors.Join(fmt.Errorf("reach %s: %w", t.server.addr, err), t.client.Close())
	}

	w := newWorkload(t.store, book, cfg)
	m := newMonitor(t, w, cfg)
	m.sample("start")
	loadCtx, cancel := context.WithTimeout(ctx, cfg.duration)
	defer cancel()
	var pause pause
	var watchers sync.WaitGroup
	watchers.Go(func() { m.watch(loadCtx) })
	watchers.Go(func() { pause.watch(loadCtx) })
	began := time.Now()
	w.run(loadCtx)
	r := newReport(cfg, t.server.addr, time.Since(began))
	cancel()
	watchers.Wait()
	r.Pause = milliseconds(pause.longest)

	// What comes now is done even if the load was interrupted.
	err = r.close(context.WithoutCancel(ctx), t, w, m, cfg.grace, before)
	r.OK = err == nil && r.Reconciliation.Exact() && len(r.Leaks) == 0
	return r, err
}

// close takes stock, removes the keys and closes the client, and looks for what
// is left then. There were some goroutines before the load.
func (r *report) close(ctx context.Context, t *target, w *workload, m *monitor, grace time.Duration, goroutines int) error {
	finishErr := t.finish(ctx, grace)
	r.Documents = w.ledger.Totals()
	r.Operations, r.Errors = w.recorder.summarize(r.Seconds)
	// Calls that their callers gave up on may be under way still, and count.
	inUse := awaitAtMost(grace, 0, func() int { all, idle := t.connections(); return all - idle })
	if inUse > 0 {
		r.leaked("%d connections were in use %v after the load", inUse, grace)
	}
	m.sample("end")
	counts, countsErr := t.counts(ctx, w.customers)
	if countsErr == nil {
		r.Reconciliation = w.ledger.Reconcile(func(customer string) (int64, bool) {
			count, held := counts[customer]
			return count, held
		})
	}
	removeErr := t.remove(ctx, w.customers)
	closeErr := t.client.Close()

	if after := awaitAtMost(grace, goroutines, runtime.NumGoroutine); after > goroutines {
		r.leaked("%d goroutines were there before the load and %d after it", goroutines, after)
	}
	var leftErr error
	left := awaitAtMost(grace, 0, func() (left int) { left, leftErr = t.left(ctx); return left })
	if left > 0 {
		r.leaked("the server had %d connections of the closed client", left)
	}
	m.sample("closed")
	r.Samples, r.Peak = m.samples, m.peak
	return errors.Join(finishErr, countsErr, removeErr, closeErr, leftErr)
}

// awaitAtMost waits until a number has come down to a bound, for some time at most,
// and returns it.
func awaitAtMost(grace time.Duration, bound int, number func() int) int {
	for deadline := time.Now().Add(grace); ; time.Sleep(10 * time.Millisecond) {
		if n := number(); n <= bound || time.Now().After(deadline) {
			return n
		}
	}
}

func (r *report) leaked(format string, args ...any) {
	r.Leaks = append(r.Leaks, fmt.Sprintf(format, args...))
}
