package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

func TestLoad(t *testing.T) {
	server := redistest.Start(t)
	cluster := redistest.StartCluster(t, 3)
	tests := []struct {
		name   string
		change func(cfg *config)
	}{
		{"server", func(*config) {}},
		{"url", func(cfg *config) { cfg.redis = "redis://" + server.Addr + "?pool_size=3" }},
		{"autopipeline", func(cfg *config) { cfg.autopipeline = true }},
		{"fallback", func(cfg *config) { cfg.fallback = true }},
		{"one customer", func(cfg *config) { cfg.customers = 1 }},
		{"cluster", func(cfg *config) { cfg.redis, cfg.cluster = cluster.Masters[0].Addr, true }},
		{"cluster url", func(cfg *config) { cfg.redis, cfg.cluster = "redis://"+cluster.Masters[1].Addr, true }},
		{"cluster autopipeline", func(cfg *config) {
			cfg.redis, cfg.cluster, cfg.autopipeline = cluster.Masters[0].Addr, true, true
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cfg := configFor(server)
			cfg.calls = 4000
			test.change(&cfg)
			r, err := run(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			checkWorked(t, r)
			if all := r.Operations[len(r.Operations)-1]; all.Operation != "all" || all.Calls != cfg.calls {
				t.Errorf("there were %d calls of %s, want %d of all", all.Calls, all.Operation, cfg.calls)
			}
			for _, node := range append(cluster.Masters, server) {
				if keys := node.Client().DBSize(t.Context()).Val(); keys != 0 {
					t.Errorf("%d keys were left at %s", keys, node.Addr)
				}
			}
		})
	}
}

// checkWorked fails the test unless all is as it is without faults.
func checkWorked(t *testing.T, r *report) {
	t.Helper()
	if !r.OK || len(r.Errors) > 0 || r.Documents.Answered != r.Documents.Documents ||
		r.Reconciliation.Counted != r.Documents.Answered {
		t.Errorf("it did not work: %+v", r)
	}
	if r.Documents.Documents < int(r.Operations[0].Calls) {
		t.Errorf("%d documents in %d calls of Next", r.Documents.Documents, r.Operations[0].Calls)
	}
	for _, o := range r.Operations {
		if o.Calls == 0 || o.Rate <= 0 || o.Max <= 0 || o.P50 > o.P90 || o.P90 > o.P99 || o.P99 > o.P999 || o.P999 > o.Max {
			t.Errorf("these times cannot be: %+v", o)
		}
	}
	first, last := r.Samples[0], r.Samples[len(r.Samples)-1]
	if first.At != "start" || last.At != "closed" || last.Connections != 0 || last.Heap == 0 || last.Resident == 0 {
		t.Errorf("these samples cannot be: %+v", r.Samples)
	}
	if r.Peak.Connections < 1 || r.Peak.Resident < last.Resident || r.Peak.Heap < last.Heap || r.Peak.Goroutines < last.Goroutines {
		t.Errorf("the peak %+v cannot be, with %+v", r.Peak, r.Samples)
	}
}

// TestForeignWriteIsFound counts a document that none of the callers sent.
func TestForeignWriteIsFound(t *testing.T) {
	server := redistest.Start(t)
	cfg := configFor(server)
	r, err := runUntil(t, cfg, func() {
		key := awaitKey(t, server, cfg)
		if err := server.Client().Decr(t.Context(), key).Err(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || r.Reconciliation.Extra != 1 || r.Reconciliation.Missing != 0 || len(r.Leaks) > 0 {
		t.Errorf("one extra document was found as %v, leaks %q, OK: %t", r.Reconciliation, r.Leaks, r.OK)
	}
}

// TestLostCountsAreFound has a server that ends and forgets everything.
func TestLostCountsAreFound(t *testing.T) {
	server := redistest.Start(t)
	cfg := configFor(server)
	r, err := runUntil(t, cfg, func() {
		awaitKey(t, server, cfg)
		server.Kill()
		server.Restart()
		awaitKey(t, server, cfg)
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.OK || r.Reconciliation.Missing == 0 || r.Reconciliation.Extra != 0 || len(r.Leaks) > 0 {
		t.Errorf("lost counts were found as %v, leaks %q, OK: %t", r.Reconciliation, r.Leaks, r.OK)
	}
}

// TestErrors has a store of which every call fails, in each of the ways in turn.
func TestErrors(t *testing.T) {
	causes := []error{
		priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount,
		priority.ErrInvalidCustomer, errors.New(strings.Repeat("é ", 300)),
	}
	cfg := config{concurrency: 4, customers: 10, calls: 10_000}
	w := newWorkload(&failingStore{causes: causes}, new(ledger.Ledger), cfg)
	w.run(t.Context())

	r := newReport(cfg, "failing", time.Second)
	r.Operations, r.Errors = w.recorder.summarize(r.Seconds)
	failed := 0
	for i, e := range r.Errors {
		failed += e.Errors
		if !strings.Contains(e.First, causes[i].Error()) {
			t.Errorf("the first of %s is %q, want %q", e.Class, e.First, causes[i])
		}
	}
	if len(r.Errors) != len(causes) {
		t.Errorf("there are %d classes, want %d", len(r.Errors), len(causes))
	}
	calls := make(map[string]int)
	for _, o := range r.Operations {
		calls[o.Operation] = int(o.Calls)
	}
	// A NextEach has an error an entry, all others one a call.
	documents := w.ledger.Totals()
	if inEach := failed - (calls["all"] - calls["NextEach"]); inEach <= calls["NextEach"] || failed > documents.Documents+calls["Peek"] {
		t.Errorf("%d errors in %v calls for %d documents", failed, calls, documents.Documents)
	}
	if documents.Answered > 0 || documents.NotCounted == 0 || documents.OutcomeUnknown == 0 || documents.Other == 0 {
		t.Errorf("the totals are %v", documents)
	}
	checkTable(t, r)
}

// failingStore fails with each of the causes in turn.
type failingStore struct {
	priority.Store
	causes []error
	calls  atomic.Int64
}

func (s *failingStore) fail() error {
	return fmt.Errorf("%w, of course", s.causes[int(s.calls.Add(1))%len(s.causes)])
}

func (s *failingStore) Next(context.Context, string) (priority.Decision, error) {
	return priority.Decision{}, s.fail()
}

func (s *failingStore) NextN(context.Context, string, int) ([]priority.Decision, error) {
	return nil, s.fail()
}

func (s *failingStore) NextEach(_ context.Context, customers []string) ([]priority.Decision, error) {
	batch := &priority.BatchError{Errs: make([]error, len(customers))}
	for i := range batch.Errs {
		batch.Errs[i] = s.fail()
	}
	return make([]priority.Decision, len(customers)), batch
}

func (s *failingStore) Submit(context.Context, string, string) (priority.Decision, error) {
	return priority.Decision{}, s.fail()
}

func (s *failingStore) Peek(context.Context, string) (priority.Decision, error) {
	return priority.Decision{}, s.fail()
}

func TestLeaksAreFound(t *testing.T) {
	server := redistest.Start(t)
	cfg := configFor(server)
	cfg.grace = 100 * time.Millisecond

	t.Run("goroutine", func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		r, err := runUntil(t, cfg, func() {
			awaitKey(t, server, cfg)
			for range 100 { // more than earlier tests may have left that end meanwhile
				go func() { <-release }()
			}
		})
		if err != nil || r.OK || len(r.Leaks) != 1 || !strings.Contains(r.Leaks[0], "goroutines") {
			t.Errorf("the leaks are %q, OK: %t, %v", r.Leaks, r.OK, err)
		}
	})
	t.Run("connection", func(t *testing.T) {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, ClientName: cfg.prefix})
		defer client.Close()
		if err := client.Ping(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		r, err := runUntil(t, cfg, func() { awaitKey(t, server, cfg) })
		if err != nil || r.OK || len(r.Leaks) != 1 || !strings.Contains(r.Leaks[0], "server had 1 connection") {
			t.Errorf("the leaks are %q, OK: %t, %v", r.Leaks, r.OK, err)
		}
	})
}

// TestProgress is what is seen on a terminal.
func TestProgress(t *testing.T) {
	server := redistest.Start(t)
	cfg := configFor(server)
	shown := &signalled{wrote: make(chan struct{}, 1)}
	cfg.progress = shown
	if _, err := runUntil(t, cfg, func() { <-shown.wrote }); err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(shown.String(), "\r\x1b[K") {
		if utf8.RuneCountInString(line) >= columns || line != "" && !strings.Contains(line, " calls/s ") {
			t.Errorf("the line %q is not one of progress", line)
		}
	}
}

// signalled is a buffer that tells when it is written to.
type signalled struct {
	bytes.Buffer
	wrote chan struct{}
}

func (s *signalled) Write(p []byte) (int, error) {
	select {
	case s.wrote <- struct{}{}:
	default:
	}
	return s.Buffer.Write(p)
}

func TestCommand(t *testing.T) {
	server := redistest.Start(t)
	t.Run("tables", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		args := []string{"-redis", server.Addr, "-duration", "300ms", "-concurrency", "4", "-customers", "50"}
		if status := command(t.Context(), args, &stdout, &stderr); status != statusOK || stderr.Len() > 0 {
			t.Fatalf("status %d: %s%s", status, &stdout, &stderr)
		}
		if !strings.Contains(stdout.String(), "\nok: ") {
			t.Errorf("the report is not that all is well:\n%s", &stdout)
		}
	})
	t.Run("json", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		args := []string{"-redis", server.Addr, "-calls", "1000", "-timeout", "10s", "-json"}
		if status := command(t.Context(), args, &stdout, &stderr); status != statusOK || stderr.Len() > 0 {
			t.Fatalf("status %d: %s%s", status, &stdout, &stderr)
		}
		var r report
		if err := json.Unmarshal(stdout.Bytes(), &r); err != nil {
			t.Fatalf("%v in\n%s", err, &stdout)
		}
		checkWorked(t, &r)
		checkTable(t, &r)
	})
	t.Run("no server", func(t *testing.T) {
		gone := redistest.Start(t)
		gone.Kill()
		var stdout, stderr bytes.Buffer
		status := command(t.Context(), []string{"-redis", gone.Addr}, &stdout, &stderr)
		if status != statusFailed || !strings.Contains(stderr.String(), "reach "+gone.Addr) || stdout.Len() > 0 {
			t.Errorf("status %d: %s%s", status, &stdout, &stderr)
		}
	})
}

func TestUsage(t *testing.T) {
	const addr = "127.0.0.1:1"
	tests := []struct {
		args   string
		status int
		says   string
	}{
		{"-help", statusOK, "-concurrency"},
		{"", statusUsage, "-redis is missing"},
		{"-redis " + addr + " more", statusUsage, `"more"`},
		{"-unknown", statusUsage, "-unknown"},
		{"-redis " + addr + " -duration 0s", statusUsage, "-duration is 0s"},
		{"-redis " + addr + " -timeout -1s", statusUsage, "-timeout is -1s"},
		{"-redis " + addr + " -concurrency 0", statusUsage, "-concurrency is 0"},
		{"-redis " + addr + " -customers 0", statusUsage, "-customers is 0"},
		{"-redis " + addr + " -calls -1", statusUsage, "-calls is -1"},
		{"-redis 127.0.0.1", statusUsage, "not host:port"},
		{"-redis 192.0.2.1:6379", statusUsage, "192.0.2.1:6379 is not a loopback address"},
		{"-redis example.com:6379", statusUsage, "example.com:6379 is not a loopback address"},
		{"-redis redis://localhost.example.com", statusUsage, "is not a loopback address"},
		{"-redis redis://localhost:1@192.0.2.1:6379", statusUsage, "is not a loopback address"},
		{"-redis 0.0.0.0:6379", statusUsage, "is not a loopback address"},
		{"-redis redis://" + addr + "?wrong=1", statusUsage, "wrong"},
		{"-redis 192.0.2.1:6379 -cluster", statusUsage, "is not a loopback address"},
		{"-redis redis://" + addr + "?addr=192.0.2.1:6379 -cluster", statusUsage, "is not a loopback address"},
	}
	for _, test := range tests {
		t.Run(test.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			status := command(t.Context(), strings.Fields(test.args), &stdout, &stderr)
			if status != test.status || !strings.Contains(stderr.String(), test.says) || stdout.Len() > 0 {
				t.Errorf("status %d, want %d and %q: %s%s", status, test.status, test.says, &stdout, &stderr)
			}
		})
	}
}

func TestLoopback(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:1", "127.8.9.10:1", "[::1]:1", "localhost:1"} {
		if err := isLoopback(addr); err != nil {
			t.Error(err)
		}
	}
	// Nodes of a cluster may have any address.
	_, err := dialer(&redis.Options{})(t.Context(), "tcp", "192.0.2.1:6379")
	if err == nil || !strings.Contains(err.Error(), "is not a loopback address") {
		t.Errorf("dialing another machine: %v", err)
	}
}

// configFor returns a short load for a server.
func configFor(server *redistest.Server) config {
	return config{
		redis: server.Addr, timeout: 10 * time.Second, duration: time.Minute,
		concurrency: 8, customers: 300, prefix: "load-test", grace: 15 * time.Second,
	}
}

// runUntil runs a load that is interrupted once meanwhile has returned.
func runUntil(t *testing.T, cfg config, meanwhile func()) (*report, error) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	type result struct {
		report *report
		err    error
	}
	done := make(chan result)
	go func() {
		r, err := run(ctx, cfg)
		done <- result{r, err}
	}()
	meanwhile()
	interrupt()
	r := <-done
	return r.report, r.err
}

// awaitKey waits until more documents have been counted than can be without an
// answer at a time, and returns the key of the customer who is picked most.
func awaitKey(t *testing.T, server *redistest.Server, cfg config) string {
	t.Helper()
	client := server.Client()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Prefix: cfg.prefix})
	if err != nil {
		t.Fatal(err)
	}
	key := store.Key("customer-0")
	unanswered := int64(cfg.concurrency * (mostDocuments + 1))
	redistest.Await(t, "the load has begun", func() bool {
		count, err := client.Get(t.Context(), key).Int64()
		return err == nil && count < -unanswered
	})
	return key
}

// checkTable fails the test if the report is wider than a terminal.
func checkTable(t *testing.T, r *report) {
	t.Helper()
	var table strings.Builder
	if err := r.write(&table); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(table.String()) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > columns {
			t.Errorf("%d characters: %s", n, line)
		}
	}
}
