package priority_test

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// truth is a store without a Coalescer, which is sent what a Coalescer is sent,
// and how it may differ: after somebody else's Reset, documents of the customer
// may be decided by the old count until the Coalescer asks, an interval later at
// the most. It then drops them: they are none of the new count's.
type truth struct {
	*priority.MemoryStore
	interval time.Duration
	resets   map[string]time.Time // by somebody else, not known to be noticed

	decided, estimated, late int
}

func newTruth(t *testing.T, policy priority.Policy, interval time.Duration) *truth {
	store := must(priority.NewMemoryStore(&priority.MemoryOptions{Policy: policy}))(t)
	return &truth{MemoryStore: store, interval: interval, resets: make(map[string]time.Time)}
}

// check fails the test unless one document may be decided so.
func (w *truth) check(t *testing.T, customer string, got priority.Decision) {
	t.Helper()
	w.decided++
	reset, wasReset := w.resets[customer]
	if got.Estimated {
		w.estimated++
		last, err := w.MemoryStore.Peek(t.Context(), customer)
		if lowest := w.PolicyOf(customer).Lowest(); err != nil || got.Level != lowest {
			t.Fatalf("%s: estimated %+v (%v)", customer, got, err)
		} else if wasReset && last.Level != lowest {
			w.late++
			if since := time.Since(reset); since >= w.interval {
				t.Fatalf("%s: %+v %v after somebody's Reset", customer, got, since)
			}
			return // the old count's
		}
	} else {
		delete(w.resets, customer)
	}
	want, err := w.MemoryStore.Next(t.Context(), customer)
	if err != nil || got.Level != want.Level || !got.Estimated && got.Count != want.Count {
		t.Fatalf("%s: the Coalescer decides %+v; without it %+v, %v", customer, got, want, err)
	}
}

// Random traffic of many customers and several senders through a Coalescer is
// decided document for document as without it, but for what its rules allow.
func TestCoalescerDecidesAsWithoutIt(t *testing.T) {
	for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
		for seed := range uint64(10) {
			t.Run(fmt.Sprint(mode, " ", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { compareTraffic(t, mode, seed) })
			})
		}
	}
}

func compareTraffic(t *testing.T, mode priority.ResetMode, seed uint64) {
	const documents, names, interval = 20_000, 300, time.Second
	random := rand.New(rand.NewPCG(seed, 7))
	zipf := rand.NewZipf(random, 1.1, 1, names-1)
	customer := func() string { return fmt.Sprint("customer ", zipf.Uint64()) }
	policy := priority.Policy{ResetMode: mode, ResetInterval: time.Duration(20+random.IntN(300)) * time.Second}
	fleet := newWatched(t, policy)
	coalescer := must(priority.NewCoalescer(fleet, &priority.CoalescerOptions{Interval: interval, MaxCustomers: 20 + random.IntN(names)}))(t)
	truth := newTruth(t, policy, interval)
	both := func(do func(priority.Store) error) {
		for _, store := range []priority.Store{fleet.MemoryStore, truth} {
			if err := do(store); err != nil {
				t.Fatal(err)
			}
		}
	}
	var disturbed = make(map[string]bool) // by somebody else
	var last = make(map[string]time.Time) // documents
	// certain waits until it is certain whether a customer's count has expired: the
	// reset interval begins with the document without a Coalescer, and up to an
	// interval later with it.
	certain := func(customer string) {
		if gap := time.Since(last[customer]); gap > policy.ResetInterval-interval && gap <= policy.ResetInterval+2*interval {
			time.Sleep(4 * interval)
			synctest.Wait()
		}
		last[customer] = time.Now()
	}
	for truth.decided < documents {
		if random.IntN(10) == 0 {
			time.Sleep(time.Duration(random.Int64N(int64(500 * ms))))
		}
		if random.IntN(2000) == 0 {
			time.Sleep(policy.ResetInterval + 3*interval)
		}
		switch dice := random.IntN(1000); {
		case dice < 3: // its own Reset
			customer := customer()
			if err := coalescer.Reset(t.Context(), customer); err != nil {
				t.Fatal(err)
			}
			if err := truth.Reset(t.Context(), customer); err != nil {
				t.Fatal(err)
			}
			delete(truth.resets, customer)
		case dice < 8: // somebody else's
			customer := customer()
			both(func(store priority.Store) error { return store.Reset(t.Context(), customer) })
			truth.resets[customer] = time.Now()
			disturbed[customer] = true
		case dice < 12: // somebody else's documents
			customer := customer()
			certain(customer)
			both(func(store priority.Store) error {
				_, err := store.NextN(t.Context(), customer, 1+int(dice%3)*10)
				return err
			})
		case dice < 50:
			customer := customer()
			certain(customer)
			decisions, err := coalescer.NextN(t.Context(), customer, 1+random.IntN(20))
			if err != nil {
				t.Fatal(err)
			}
			for _, decision := range decisions {
				truth.check(t, customer, decision)
			}
		case dice < 100:
			all := make([]string, 1+random.IntN(20))
			for i := range all {
				all[i] = customer()
				certain(all[i])
			}
			for _, customer := range all {
				last[customer] = time.Now()
			}
			decisions, err := coalescer.NextEach(t.Context(), all)
			if err != nil {
				t.Fatal(err)
			}
			for i, decision := range decisions {
				truth.check(t, all[i], decision)
			}
		default:
			customer := customer()
			certain(customer)
			decision, err := coalescer.Next(t.Context(), customer)
			if err != nil {
				t.Fatal(err)
			}
			truth.check(t, customer, decision)
		}
		synctest.Wait()
	}
	if err := coalescer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range names {
		customer := fmt.Sprint("customer ", i)
		got, want := countOf(t, fleet.MemoryStore, customer), countOf(t, truth, customer)
		if !disturbed[customer] && got != want {
			t.Errorf("%s: the count is %d at last; without a Coalescer %d", customer, got, want)
		}
	}
	t.Logf("%v: %d documents, %d from memory, %d of them late; %d calls of the store",
		mode, truth.decided, truth.estimated, truth.late, len(fleet.take()))
}

// The same on a real server, whose clock nobody moves.
func TestCoalescerDecidesAsWithoutItOnAServer(t *testing.T) {
	t.Parallel()
	const documents, names, interval = 20_000, 100, 20 * ms
	random := rand.New(rand.NewPCG(8, 9))
	zipf := rand.NewZipf(random, 1.1, 1, names-1)
	store := openStore(t, redistest.Start(t).Client(), patient)
	coalescer := must(priority.NewCoalescer(store, &priority.CoalescerOptions{Interval: interval}))(t)
	truth := newTruth(t, priority.Policy{}, interval)
	for truth.decided < documents {
		customer := fmt.Sprint("customer ", zipf.Uint64())
		if random.IntN(500) == 0 {
			for _, store := range []priority.Store{coalescer, truth} {
				if err := store.Reset(t.Context(), customer); err != nil {
					t.Fatal(err)
				}
			}
		}
		decision, err := coalescer.Next(t.Context(), customer)
		if err != nil {
			t.Fatal(err)
		}
		truth.check(t, customer, decision)
	}
	if err := coalescer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range names {
		customer := fmt.Sprint("customer ", i)
		if got, want := countOf(t, store, customer), countOf(t, truth, customer); got != want {
			t.Errorf("%s: the count is %d at last; without a Coalescer %d", customer, got, want)
		}
	}
}

// Recorded traffic, in its own time. PRIORITY_TRACES names a folder of traces:
// CSV, gzipped, as examples/replay reads it.
func TestCoalescerDecidesATraceAsWithoutIt(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(os.Getenv("PRIORITY_TRACES"), "*.csv.gz"))
	if err != nil || os.Getenv("PRIORITY_TRACES") == "" {
		t.Skipf("PRIORITY_TRACES names no folder of traces (%v)", err)
	}
	for _, file := range files {
		for _, mode := range []priority.ResetMode{priority.SinceLastUpdate, priority.SinceLastReset} {
			t.Run(fmt.Sprint(filepath.Base(file), " ", mode), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { compareTrace(t, file, priority.Policy{ResetMode: mode}) })
			})
		}
	}
}

func compareTrace(t *testing.T, file string, policy priority.Policy) {
	const interval = time.Second
	fleet := newWatched(t, policy)
	coalescer := must(priority.NewCoalescer(fleet, nil))(t)
	truth := must(priority.NewMemoryStore(&priority.MemoryOptions{Policy: policy}))(t)
	last := make(map[string]time.Time)
	later := make(map[string]bool) // whose count did not start afresh when it did without a Coalescer
	began := time.Now()
	var documents, estimated, differ int
	readTrace(t, file, func(submitted time.Duration, customer string) {
		time.Sleep(time.Until(began.Add(submitted)))
		got, err := coalescer.Next(t.Context(), customer)
		if err != nil {
			t.Fatal(err)
		}
		want, err := truth.Next(t.Context(), customer)
		if err != nil {
			t.Fatal(err)
		}
		gap := time.Since(last[customer]) - quiet
		switch {
		case want.Count == 0 && got.Count != 0 && gap > 0 && gap <= interval && policy.ResetMode == priority.SinceLastUpdate:
			later[customer] = true
		case want.Count == 0:
			delete(later, customer)
		}
		documents++
		if got.Estimated {
			estimated++
		}
		if later[customer] {
			differ++
		}
		if got.Level < want.Level || got.Level > want.Level && !later[customer] || got.Count != want.Count && !later[customer] {
			t.Fatalf("%s at %v: the Coalescer decides %+v; without it %+v", customer, submitted, got, want)
		}
		last[customer] = time.Now()
	})
	if err := coalescer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for customer := range last {
		got, want := countOf(t, fleet.MemoryStore, customer), countOf(t, truth, customer)
		if got != want && !later[customer] && time.Since(last[customer]) < quiet {
			t.Errorf("%s: the count is %d at last; without a Coalescer %d", customer, got, want)
		}
	}
	t.Logf("%d documents, %d from memory, %d may differ; %d calls of the store", documents, estimated, differ, len(fleet.take()))
}

// readTrace calls document for each row of a gzipped CSV file.
func readTrace(t *testing.T, file string, document func(submitted time.Duration, customer string)) {
	t.Helper()
	opened, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	plain, err := gzip.NewReader(opened)
	if err != nil {
		t.Fatal(err)
	}
	rows := csv.NewReader(plain)
	for {
		row, err := rows.Read()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if milliseconds, err := strconv.ParseInt(row[0], 10, 64); err == nil { // no header
			document(time.Duration(milliseconds)*ms, row[1])
		}
	}
}
