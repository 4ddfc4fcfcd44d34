package observe_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/observe"
)

// told keeps the calls that it is told of.
type told struct{ calls []observe.Call }

func (o *told) observe(_ context.Context, call observe.Call) { o.calls = append(o.calls, call) }

// take returns the one call since the last take.
func (o *told) take(t *testing.T) observe.Call {
	t.Helper()
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
	customer  string
	customers []string
	items     int
	took      time.Duration
	ended     []priority.Ended // if each call takes a second
	call      func(ctx context.Context, s *observe.Store) ([]priority.Decision, error)
}{
	{"Next", "acme", nil, 1, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return one(s.Next(ctx, "acme"))
	}},
	{"NextN", "acme", nil, 3, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.NextN(ctx, "acme", 3)
	}},
	{"NextEach", "", []string{"b", "a", "b"}, 3, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.NextEach(ctx, []string{"b", "a", "b"})
	}},
	{"Submit", "acme", nil, 1, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return one(s.Submit(ctx, "acme", priority.Document{ID: "1"}))
	}},
	{"SubmitN", "acme", nil, 2, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		return s.SubmitN(ctx, "acme", named.Documents("2", "3"))
	}},
	{"Done", "acme", nil, 1, 3 * time.Second, []priority.Ended{{Latency: 2 * time.Second, Level: 1}}, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		_, err := s.Done(ctx, "acme", "1", 3*time.Second)
		return nil, err
	}},
	{"DoneN", "acme", nil, 2, 5 * time.Second, []priority.Ended{{Latency: 2 * time.Second, Level: 1}, {Latency: 2 * time.Second, Level: 2}}, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		_, err := s.DoneN(ctx, "acme", []string{"2", "3"}, 5*time.Second)
		return nil, err
	}},
	{"Peek", "acme", nil, 0, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
		_, err := s.Peek(ctx, "acme")
		return nil, err
	}},
	{"Reset", "acme", nil, 0, 0, nil, func(ctx context.Context, s *observe.Store) ([]priority.Decision, error) {
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
		store := observed(t, slow, first.observe, nil, second.observe)
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
					Operation: operation.name, Customer: operation.customer, Customers: operation.customers, Items: operation.items, Took: operation.took,
					Decisions: decisions, Start: start, Duration: took, Err: err,
				}
				if err == nil {
					want.Ended = operation.ended
				} else if operation.name == "DoneN" {
					want.Ended = make([]priority.Ended, operation.items)
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

// observed is a store whose calls are reported.
func observed(t *testing.T, store priority.Store, observers ...observe.Func) *observe.Store {
	t.Helper()
	s, err := observe.New(store, observers...)
	if err != nil {
		t.Fatal(err)
	}
	return s
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
		{priority.ErrInvalid, "invalid"},
		{away, "not_counted"},
		{lost, "outcome_unknown"},
		{fmt.Errorf("%w: list", priority.ErrCorrupt), "corrupt"},
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
