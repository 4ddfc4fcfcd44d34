package priority_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/redistest"
)

// openObserved makes an observed MemoryStore with a clock that is moved.
func openObserved(t *testing.T, r rule) *world {
	t.Helper()
	w := openMemory(t, r)
	w.Store = priority.NewObservedStore(w.Store, func(context.Context, priority.Call) {})
	return w
}

// told keeps the calls that it is told of.
type told struct {
	mu    sync.Mutex
	calls []priority.Call
}

func (o *told) observe(_ context.Context, call priority.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// take returns the one call since the last take.
func (o *told) take(t *testing.T) priority.Call {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.calls) != 1 {
		t.Fatalf("told of %d calls, want one: %+v", len(o.calls), o.calls)
	}
	call := o.calls[0]
	o.calls = nil
	return call
}

// slow is a store and a tracker that take a second for each call.
type slow struct {
	priority.Store
	tracker priority.Tracker
	err     error // of all calls, if there is one
}

func (s *slow) failing() error { time.Sleep(time.Second); return s.err }

func (s *slow) Next(ctx context.Context, customer string) (priority.Decision, error) {
	if err := s.failing(); err != nil {
		return priority.Decision{}, err
	}
	return s.Store.Next(ctx, customer)
}

func (s *slow) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Store.NextN(ctx, customer, n)
}

func (s *slow) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.Store.NextEach(ctx, customers)
}

func (s *slow) Peek(ctx context.Context, customer string) (priority.Decision, error) {
	if err := s.failing(); err != nil {
		return priority.Decision{}, err
	}
	return s.Store.Peek(ctx, customer)
}

func (s *slow) Reset(ctx context.Context, customer string) error {
	if err := s.failing(); err != nil {
		return err
	}
	return s.Store.Reset(ctx, customer)
}

type slowTracker struct{ *slow }

func (s slowTracker) Submit(ctx context.Context, customer, document string) (priority.Decision, error) {
	if err := s.failing(); err != nil {
		return priority.Decision{}, err
	}
	return s.tracker.Submit(ctx, customer, document)
}

func (s slowTracker) SubmitN(ctx context.Context, customer string, documents []string) ([]priority.Decision, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.tracker.SubmitN(ctx, customer, documents)
}

func (s slowTracker) Done(ctx context.Context, customer, document string) error {
	if err := s.failing(); err != nil {
		return err
	}
	return s.tracker.Done(ctx, customer, document)
}

func (s slowTracker) DoneN(ctx context.Context, customer string, documents []string) error {
	if err := s.failing(); err != nil {
		return err
	}
	return s.tracker.DoneN(ctx, customer, documents)
}

func TestObserversAreToldOfEachCall(t *testing.T) {
	ctx := context.Background()
	one := func(decision priority.Decision, err error) ([]priority.Decision, error) {
		if err != nil {
			return nil, err
		}
		return []priority.Decision{decision}, nil
	}
	type observed struct {
		store   priority.Store
		tracker priority.Tracker
	}
	for _, test := range []struct {
		operation string
		customers []string
		items     int
		call      func(o observed) ([]priority.Decision, error)
	}{
		{"Next", []string{"acme"}, 1, func(o observed) ([]priority.Decision, error) { return one(o.store.Next(ctx, "acme")) }},
		{"NextN", []string{"acme"}, 3, func(o observed) ([]priority.Decision, error) { return o.store.NextN(ctx, "acme", 3) }},
		{"NextEach", []string{"b", "a", "b"}, 3, func(o observed) ([]priority.Decision, error) {
			return o.store.NextEach(ctx, []string{"b", "a", "b"})
		}},
		{"Peek", []string{"acme"}, 0, func(o observed) ([]priority.Decision, error) { return one(o.store.Peek(ctx, "acme")) }},
		{"Reset", []string{"acme"}, 0, func(o observed) ([]priority.Decision, error) { return nil, o.store.Reset(ctx, "acme") }},
		{"Submit", []string{"acme"}, 1, func(o observed) ([]priority.Decision, error) { return one(o.tracker.Submit(ctx, "acme", "1")) }},
		{"SubmitN", []string{"acme"}, 2, func(o observed) ([]priority.Decision, error) {
			return o.tracker.SubmitN(ctx, "acme", []string{"2", "3"})
		}},
		{"Done", []string{"acme"}, 1, func(o observed) ([]priority.Decision, error) { return nil, o.tracker.Done(ctx, "acme", "1") }},
		{"DoneN", []string{"acme"}, 2, func(o observed) ([]priority.Decision, error) {
			return nil, o.tracker.DoneN(ctx, "acme", []string{"2", "3"})
		}},
		{"Peek", []string{"acme"}, 0, func(o observed) ([]priority.Decision, error) { return one(o.tracker.Peek(ctx, "acme")) }},
		{"Reset", []string{"acme"}, 0, func(o observed) ([]priority.Decision, error) { return nil, o.tracker.Reset(ctx, "acme") }},
	} {
		for _, failure := range []error{nil, errLost} {
			t.Run(fmt.Sprint(test.operation, " ", failure), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var first, second told
					inner := &slow{Store: new(priority.MemoryStore), tracker: new(priority.MemoryTracker), err: failure}
					start := time.Now()
					decisions, err := test.call(observed{
						priority.NewObservedStore(inner, first.observe, nil, second.observe),
						priority.NewObservedTracker(slowTracker{inner}, first.observe, nil, second.observe),
					})
					if !errors.Is(err, failure) {
						t.Fatalf("the call returned %v, want %v", err, failure)
					}
					want := priority.Call{
						Operation: test.operation, Customers: test.customers, Items: test.items,
						Decisions: decisions, Start: start, Duration: time.Second, Err: failure,
					}
					for _, observer := range []*told{&first, &second} {
						if got := observer.take(t); !reflect.DeepEqual(got, want) {
							t.Errorf("told of\n%+v, want\n%+v", got, want)
						}
					}
				})
			})
		}
	}
}

func TestWrongNumbersOfDocumentsAreNoItems(t *testing.T) {
	var seen told
	store := priority.NewObservedStore(new(priority.MemoryStore), seen.observe)
	for _, n := range []int{-1, priority.MaxDocuments + 1} {
		_, _ = store.NextN(t.Context(), "acme", n)
		if call := seen.take(t); call.Items != 0 || priority.Outcome(call.Err) != "invalid" {
			t.Errorf("NextN of %d: told of %d items and %v", n, call.Items, call.Err)
		}
	}
}

func TestObserversSeeTheCallersContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "span")
	store := priority.NewObservedStore(new(priority.MemoryStore), func(ctx context.Context, _ priority.Call) {
		if ctx.Value(key{}) != "span" {
			t.Error("the observer got another context")
		}
	})
	if _, err := store.Next(ctx, "acme"); err != nil {
		t.Fatal(err)
	}
}

func TestObservedFallback(t *testing.T) {
	var outside, inside told
	primary := newBreakable(t, priority.Policy{})
	primary.set(errLost)
	store := priority.NewObservedStore(
		priority.NewFallback(priority.NewObservedStore(primary, inside.observe), nil, nil), outside.observe)
	if _, err := store.Next(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	if call := outside.take(t); call.Err != nil || !call.Decisions[0].Degraded {
		t.Errorf("outside: %+v; want a degraded decision", call)
	}
	if call := inside.take(t); priority.Outcome(call.Err) != "outcome_unknown" {
		t.Errorf("inside: %+v; want the primary's error", call)
	}
}

// A Coalescer needs to know the lowest level.
func TestObservedStorePassesThePolicyOn(t *testing.T) {
	policy := priority.Policy{Thresholds: []int64{-1}}
	memory := must(priority.NewMemoryStore(&priority.MemoryOptions{Policy: policy}))(t)
	observed := priority.NewObservedStore(memory)
	if lowest := observed.PolicyOf("acme").Lowest(); lowest != 2 {
		t.Errorf("lowest level %d, want 2", lowest)
	}
	coalescer := must(priority.NewCoalescer(observed, nil))(t)
	if _, err := coalescer.NextN(t.Context(), "acme", 30); err != nil {
		t.Fatal(err)
	}
	if decision, err := coalescer.Next(t.Context(), "acme"); err != nil || !decision.Estimated || decision.Level != 2 {
		t.Errorf("%+v, %v; want an answer from memory", decision, err)
	}
	if err := coalescer.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	silent := priority.NewObservedStore(struct{ priority.Store }{memory})
	if got := silent.PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) {
		t.Errorf("of a store that does not tell: %+v, want the default policy", got)
	}
}

func TestObserversThatPanicLoseNothing(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)

	var after told
	store := priority.NewObservedStore(new(priority.MemoryStore),
		func(context.Context, priority.Call) { panic("a bad observer") }, after.observe)
	for i := range int64(3) {
		if decision, err := store.Next(t.Context(), "acme"); err != nil || decision.Count != -i {
			t.Errorf("%+v, %v; want count %d", decision, err, -i)
		}
		after.take(t)
	}
	if n := strings.Count(log.String(), "a bad observer"); n != 1 || !strings.Contains(log.String(), "observed_test.go") {
		t.Errorf("logged %d times, want once and with the stack:\n%s", n, log.String())
	}
}

func TestOutcome(t *testing.T) {
	corrupt := fmt.Errorf("%w: list", priority.ErrCorruptCount)
	batch := func(errs ...error) error { return &priority.BatchError{Errs: errs} }
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{priority.ErrInvalidCustomer, "invalid"},
		{errAway, "not_counted"},
		{errLost, "outcome_unknown"},
		{corrupt, "corrupt_count"},
		{errors.New("boom"), "error"},
		{fmt.Errorf("%w; the secondary store: %w", errAway, errLost), "outcome_unknown"},
		{batch(errLost, nil), "partial"},
		{batch(nil, errLost), "partial"},
		{batch(errLost, errAway), "partial"},
		{batch(errLost, errLost), "outcome_unknown"},
		{batch(), "ok"},
	} {
		if got := priority.Outcome(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

func TestFallbackLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		primary := newBreakable(t, priority.Policy{})
		fallback := priority.NewFallback(primary, nil, &priority.FallbackOptions{MaxFailures: 2, Logger: textLogger(&log)})
		count := func() {
			t.Helper()
			if _, err := fallback.Next(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		}
		primary.set(errAway)
		count()
		expectLog(t, &log)
		for range 10 {
			count()
		}
		expectLog(t, &log, `level=WARN msg="priority: the primary is left alone, the secondary answers" cause="priority: not counted: away"`)
		time.Sleep(time.Second) // one more try, which fails
		count()
		expectLog(t, &log)
		primary.set(nil)
		time.Sleep(time.Second)
		count()
		expectLog(t, &log, `level=INFO msg="priority: the primary answers again"`)
	})
}

func TestLogCorrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		primary := newBreakable(t, priority.Policy{})
		store := priority.NewObservedStore(primary, priority.LogCorrupt(textLogger(&log)))
		corrupt := fmt.Errorf("%w: the key", priority.ErrCorruptCount)
		line := func(operation, customer string) string {
			return fmt.Sprintf(`level=ERROR msg="priority: a key holds no count" operation=%s customer=%s error="priority: corrupt count: the key"`,
				operation, customer)
		}
		primary.set(errAway)
		_, _ = store.Next(t.Context(), "acme")
		expectLog(t, &log)

		primary.set(corrupt)
		for range 3 {
			_, _ = store.Next(t.Context(), "acme")
		}
		_, _ = store.NextN(t.Context(), "acme", 2)
		expectLog(t, &log, line("Next", "acme"))
		_, _ = store.Peek(t.Context(), "bakery")
		expectLog(t, &log, line("Peek", "bakery"))
		_, _ = store.NextEach(t.Context(), []string{"lost1", "good", "lost2", "lost1"})
		expectLog(t, &log, line("NextEach", "lost1"), line("NextEach", "lost2"))

		time.Sleep(time.Minute - time.Nanosecond)
		_, _ = store.Next(t.Context(), "acme")
		expectLog(t, &log)
		time.Sleep(time.Nanosecond)
		_ = store.Reset(t.Context(), "acme")
		expectLog(t, &log, line("Reset", "acme"))
	})
	if priority.LogCorrupt(nil) != nil {
		t.Error("an observer without a logger")
	}
}

// The store and the tracker on Redis name the key.
func TestLogCorruptNamesTheKey(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		operation string
		call      func(store *priority.ObservedStore, tracker *priority.ObservedTracker) error
	}{
		{"Next", func(store *priority.ObservedStore, _ *priority.ObservedTracker) error {
			_, err := store.Next(t.Context(), "acme")
			return err
		}},
		{"NextEach", func(store *priority.ObservedStore, _ *priority.ObservedTracker) error {
			_, err := store.NextEach(t.Context(), []string{"bakery", "acme", "clinic"})
			return err
		}},
		{"SubmitN", func(_ *priority.ObservedStore, tracker *priority.ObservedTracker) error {
			_, err := tracker.SubmitN(t.Context(), "acme", []string{"1", "2", "3"})
			return err
		}},
	} {
		t.Run(test.operation, func(t *testing.T) {
			t.Parallel()
			server := miniredis.RunT(t)
			client := connect(t, server.Addr())
			if err := server.Set("priority:{acme}:count", "many"); err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			observe := priority.LogCorrupt(textLogger(&log))
			err := test.call(
				priority.NewObservedStore(openStore(t, client, patient), observe),
				priority.NewObservedTracker(must(priority.NewRedisTracker(client, patient))(t), observe),
			)
			if !errors.Is(err, priority.ErrCorruptCount) {
				t.Fatalf("the call returned %v", err)
			}
			if n := strings.Count(log.String(), "level=ERROR"); n != 1 ||
				!strings.Contains(log.String(), "operation="+test.operation+" customer=acme") ||
				!strings.Contains(log.String(), "priority:{acme}:count") {
				t.Errorf("%d lines, want one about the key of acme:\n%s", n, log.String())
			}
		})
	}
}

// Many goroutines observe at once; the race detector looks on.
func TestObservedStoreConcurrently(t *testing.T) {
	t.Parallel()
	client := redistest.Start(t).Client()
	if err := client.Set(t.Context(), "priority:{corrupt}:count", "many", 0).Err(); err != nil {
		t.Fatal(err)
	}
	var seen told
	var log bytes.Buffer
	store := priority.NewObservedStore(openStore(t, client, patient), seen.observe, priority.LogCorrupt(textLogger(&log)))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				_, _ = store.NextEach(t.Context(), []string{"acme", "corrupt"})
			}
		})
	}
	wg.Wait()
	if len(seen.calls) != 400 || strings.Count(log.String(), "\n") != 1 {
		t.Errorf("told of %d calls, want 400; logged\n%s, want one line", len(seen.calls), log.String())
	}
}

// textLogger logs lines without their time.
func textLogger(out *bytes.Buffer) *slog.Logger {
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}

// expectLog fails the test unless exactly these lines were logged since it was last
// called.
func expectLog(t *testing.T, log *bytes.Buffer, lines ...string) {
	t.Helper()
	want := ""
	for _, line := range lines {
		want += line + "\n"
	}
	if log.String() != want {
		t.Errorf("logged\n%s\nwant\n%s", log.String(), want)
	}
	log.Reset()
}
