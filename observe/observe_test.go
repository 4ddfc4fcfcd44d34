package observe_test

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
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// told keeps the calls that it is told of.
type told struct {
	mu    sync.Mutex
	calls []observe.Call
}

func (o *told) observe(_ context.Context, call observe.Call) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = append(o.calls, call)
}

// take returns the one call since the last take.
func (o *told) take(t *testing.T) observe.Call {
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

// operations are all calls that observers are told of, and what they are told.
var operations = []struct {
	name      string
	customers []string
	items     int
	took      time.Duration
	ended     []priority.Ended // if each call takes a second
	call      func(ctx context.Context, s *observe.Store) ([]priority.Decision, error)
}{
	{"Next", []string{"acme"}, 1, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return one(s.Next(ctx, "acme"))
	}},
	{"NextN", []string{"acme"}, 3, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.NextN(ctx, "acme", 3)
	}},
	{"NextEach", []string{"b", "a", "b"}, 3, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.NextEach(ctx, []string{"b", "a", "b"})
	}},
	{"Submit", []string{"acme"}, 1, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return one(s.Submit(ctx, "acme", "1", 0))
	}},
	{"SubmitN", []string{"acme"}, 2, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.SubmitN(ctx, "acme", []string{"2", "3"}, nil)
	}},
	{"Done", []string{"acme"}, 1, 3 * time.Second, []priority.Ended{{Document: "1", Sojourn: 2 * time.Second, Level: 1}}, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return nil, s.Done(ctx, "acme", "1", 3*time.Second)
	}},
	{"DoneN", []string{"acme"}, 2, 5 * time.Second, []priority.Ended{{Document: "2", Sojourn: 2 * time.Second, Level: 2}, {Document: "3", Sojourn: 2 * time.Second, Level: 3}}, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return nil, s.DoneN(ctx, "acme", []string{"2", "3"}, 5*time.Second)
	}},
	{"Peek", []string{"acme"}, 0, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		_, err := s.Peek(ctx, "acme")
		return nil, err
	}},
	{"Reset", []string{"acme"}, 0, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return nil, s.Reset(ctx, "acme")
	}},
}

func one(decision priority.Decision, err error) ([]priority.Decision, error) {
	if err != nil {
		return nil, err
	}
	return []priority.Decision{decision}, nil
}

func TestObserversAreToldOfEachCall(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var first, second told
		// The store takes a second for each call, unless its context has ended.
		slow, err := memory.New(&memory.Options{Now: func() time.Time { time.Sleep(time.Second); return time.Now() }})
		if err != nil {
			t.Fatal(err)
		}
		store := observe.New(slow, first.observe, nil, second.observe)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, operation := range operations {
			for ctx, took := range map[context.Context]time.Duration{t.Context(): time.Second, ended: 0} {
				start := time.Now()
				decisions, err := operation.call(ctx, store)
				if (err == nil) != (ctx == t.Context()) {
					t.Fatalf("%s: %v", operation.name, err)
				}
				want := observe.Call{
					Operation: operation.name, Customers: operation.customers, Items: operation.items, Took: operation.took,
					Decisions: decisions, Start: start, Duration: took, Err: err,
				}
				if err == nil {
					want.Ended = operation.ended
				}
				for _, observer := range []*told{&first, &second} {
					if got := observer.take(t); !reflect.DeepEqual(got, want) {
						t.Errorf("told of\n%+v, want\n%+v", got, want)
					}
				}
			}
		}
	})
}

func TestAWrongNumberOfDocumentsIsNoItem(t *testing.T) {
	var seen told
	store := observe.New(new(memory.Store), seen.observe)
	for _, n := range []int{-1, priority.MaxDocuments + 1} {
		_, _ = store.NextN(t.Context(), "acme", n)
		if call := seen.take(t); call.Items != 0 || observe.Outcome(call.Err) != "invalid" {
			t.Errorf("NextN of %d: told of %d items and %v", n, call.Items, call.Err)
		}
	}
}

func TestObserversSeeTheCallersContext(t *testing.T) {
	type key struct{}
	ctx := context.WithValue(t.Context(), key{}, "span")
	store := observe.New(new(memory.Store), func(ctx context.Context, _ observe.Call) {
		if ctx.Value(key{}) != "span" {
			t.Error("the observer got another context")
		}
	})
	for _, operation := range operations {
		_, _ = operation.call(ctx, store)
	}
}

func TestANilStoreReturnsErrors(t *testing.T) {
	for name, inner := range map[string]priority.Store{
		"nil": nil, "typed nil": (*memory.Store)(nil), "nil of the same kind": (*observe.Store)(nil),
	} {
		for _, observers := range [][]observe.Func{nil, {func(context.Context, observe.Call) {}}} {
			store := observe.New(inner, observers...)
			for _, operation := range operations {
				if _, err := operation.call(t.Context(), store); !errors.Is(err, priority.ErrInvalidOption) {
					t.Errorf("%s: %s: %v", name, operation.name, err)
				}
			}
			if got := store.PolicyOf("acme"); !reflect.DeepEqual(got, priority.DefaultPolicy()) || store.Last() != 9 {
				t.Errorf("%s: PolicyOf = %+v, Last = %d", name, got, store.Last())
			}
		}
	}
}

func TestOutcomeNamesTheClass(t *testing.T) {
	away := fmt.Errorf("%w: away", priority.ErrNotCounted)
	lost := fmt.Errorf("%w: lost", priority.ErrOutcomeUnknown)
	batch := func(errs ...error) error { return fmt.Errorf("wrapped: %w", &priority.BatchError{Errs: errs}) }
	for _, test := range []struct {
		err  error
		want string
	}{
		{nil, "ok"},
		{priority.ErrInvalidCustomer, "invalid"},
		{priority.ErrInvalidOption, "invalid"},
		{away, "not_counted"},
		{lost, "outcome_unknown"},
		{fmt.Errorf("%w: list", priority.ErrCorruptCount), "corrupt_count"},
		{errors.New("boom"), "error"},
		{context.Canceled, "error"},
		{batch(lost, nil), "partial"},
		{batch(nil, lost), "partial"},
		{batch(lost, away), "partial"},
		{batch(lost, lost, fmt.Errorf("%w: once more", lost)), "outcome_unknown"},
		{batch(), "ok"},
	} {
		if got := observe.Outcome(test.err); got != test.want {
			t.Errorf("%v: %q, want %q", test.err, got, test.want)
		}
	}
}

// spoiled returns a store whose keys hold no counts and no documents, of the named
// customers.
func spoiled(t *testing.T, observer observe.Func, customers ...string) *observe.Store {
	t.Helper()
	server := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { _ = client.Close() })
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	for _, customer := range customers {
		for _, key := range []string{store.Key(customer), store.PendingKey(customer)} {
			if err := server.Set(key, "many"); err != nil {
				t.Fatal(err)
			}
		}
	}
	return observe.New(store, observer)
}

// Whatever the call, the log names the key.
func TestLogCorruptNamesTheKey(t *testing.T) {
	t.Parallel()
	for _, operation := range operations {
		if operation.name == "Reset" {
			continue // which removes what is corrupt
		}
		t.Run(operation.name, func(t *testing.T) {
			t.Parallel()
			customer := operation.customers[len(operation.customers)-1]
			var log bytes.Buffer
			store := spoiled(t, observe.LogCorrupt(textLogger(&log)), customer)
			for range 3 {
				if _, err := operation.call(t.Context(), store); !errors.Is(err, priority.ErrCorruptCount) {
					t.Fatalf("the call returned %v", err)
				}
			}
			want := fmt.Sprintf(`level=ERROR msg="priority: a key holds no count" operation=%s error=`, operation.name)
			key := "priority:{" + customer + "}:count"
			if strings.HasPrefix(operation.name, "Submit") || strings.HasPrefix(operation.name, "Done") {
				key = "priority:{" + customer + "}:pending"
			}
			if line := log.String(); strings.Count(line, "\n") != 1 || !strings.HasPrefix(line, want) || !strings.Contains(line, key) {
				t.Errorf("logged\n%s\nwant one line that begins with\n%s\nand names %s", line, want, key)
			}
		})
	}
}

// There is at most one line a minute, however many keys are corrupt. Other errors are
// not logged, nor other entries' of a batch.
func TestLogCorruptIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		observer := observe.LogCorrupt(textLogger(&log))
		meet := func(err error, want string) {
			t.Helper()
			for range 3 {
				observer(t.Context(), observe.Call{Operation: "Next", Customers: []string{"acme"}, Items: 1, Start: time.Now(), Err: err})
			}
			if want != "" {
				want = fmt.Sprintf("level=ERROR msg=\"priority: a key holds no count\" operation=Next error=%q\n", want)
			}
			if log.String() != want {
				t.Errorf("logged\n%s\nwant\n%s", log.String(), want)
			}
			log.Reset()
		}
		away := fmt.Errorf("%w: away", priority.ErrNotCounted)
		corrupt := func(key string) error { return fmt.Errorf("%w: %s", priority.ErrCorruptCount, key) }
		meet(nil, "")
		meet(away, "")
		meet(&priority.BatchError{Errs: []error{nil, away, corrupt("a"), corrupt("b")}}, "priority: corrupt count: a")
		time.Sleep(time.Minute - time.Nanosecond)
		meet(corrupt("b"), "")
		time.Sleep(time.Nanosecond)
		meet(corrupt("b"), "priority: corrupt count: b")
		time.Sleep(time.Hour)
		meet(corrupt("c"), "priority: corrupt count: c")
	})
	// A clock that was an hour ahead goes back.
	var log bytes.Buffer
	observer := observe.LogCorrupt(textLogger(&log))
	for _, ahead := range []time.Duration{time.Hour, 0} {
		log.Reset()
		observer(t.Context(), observe.Call{Operation: "Next", Start: time.Now().Add(ahead), Err: priority.ErrCorruptCount})
		if log.Len() == 0 {
			t.Errorf("nothing is logged %v ahead", ahead)
		}
	}
	if observe.LogCorrupt(nil) != nil {
		t.Error("an observer without a logger")
	}
}

// Many goroutines observe at once; the race detector looks on.
func TestManyMayObserveAtOnce(t *testing.T) {
	t.Parallel()
	var seen told
	var log bytes.Buffer
	logCorrupt := observe.LogCorrupt(textLogger(&log))
	store := spoiled(t, func(ctx context.Context, call observe.Call) { seen.observe(ctx, call); logCorrupt(ctx, call) }, "corrupt")
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
