// Package observe reports every call of a priority.Store: to metrics, to a log, to
// a test.
package observe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/typednil"
)

// Call is one call of a store that has returned.
type Call struct {
	// Operation is the method's name: "Next", "NextN", "NextEach", "Submit",
	// "SubmitN", "Done", "DoneN", "Peek" or "Reset".
	Operation string

	// Customers is the customer of the call; of a NextEach, the customer of each
	// entry. It may not be kept or changed.
	Customers []string

	// Items is how many documents the call was for: 0 for a Peek, a Reset and a
	// NextN with an invalid number.
	Items int

	// Took is how long the documents of a Done or DoneN were worked on, all of them
	// together; 0 if that is not known.
	Took time.Duration

	// Ended are the documents that a Done or DoneN has ended: how long they were
	// pending, and which levels they had. It may not be kept or changed.
	Ended []priority.Ended

	// Decisions are what the call returned, nil if it returned no decisions. If Err
	// is a *BatchError, the decisions of failed entries mean nothing. They may not
	// be kept or changed.
	Decisions []priority.Decision

	Start    time.Time
	Duration time.Duration

	// Err is the call's error. Its message names keys, and so customers. For what
	// many people read, such as a metric's label, use its [Outcome] instead.
	Err error
}

// Func is called after each call of a Store, with the call's context, before the
// caller goes on: it must return soon. It must be safe for concurrent use and may
// not use the store.
type Func func(ctx context.Context, call Call)

// Store is a [priority.Store] that reports every call of the store it wraps to
// observers. Without an observer a call goes straight through and costs nothing.
//
// As the outermost wrapper it sees what callers see. Around an inner store, such as
// the primary of a fallback, it also sees the errors that callers do not.
type Store struct {
	inner     // PolicyOf and Last
	observers []Func
}

type inner = priority.Store

// New returns a Store that reports the calls of a store to the observers, one after
// the other. Nil observers are left out. If store is nil, every call returns
// [priority.ErrInvalidOption].
func New(store priority.Store, observers ...Func) *Store {
	s := &Store{inner: store}
	if typednil.Is(store) {
		s.inner = missing{}
	}
	for _, observe := range observers {
		if observe != nil {
			s.observers = append(s.observers, observe)
		}
	}
	return s
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return s.one(ctx, Call{Operation: "Next", Items: 1}, customer, func() (priority.Decision, error) {
		return s.inner.Next(ctx, customer)
	})
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	items := n
	if n < 0 || n > priority.MaxDocuments {
		items = 0 // n is not a valid number of documents
	}
	return s.many(ctx, Call{Operation: "NextN", Customers: []string{customer}, Items: items}, func() ([]priority.Decision, error) {
		return s.inner.NextN(ctx, customer, n)
	})
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	return s.many(ctx, Call{Operation: "NextEach", Customers: customers, Items: len(customers)}, func() ([]priority.Decision, error) {
		return s.inner.NextEach(ctx, customers)
	})
}

func (s *Store) Submit(ctx context.Context, customer, document string, cost float64) (priority.Decision, error) {
	return s.one(ctx, Call{Operation: "Submit", Items: 1}, customer, func() (priority.Decision, error) {
		return s.inner.Submit(ctx, customer, document, cost)
	})
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]priority.Decision, error) {
	return s.many(ctx, Call{Operation: "SubmitN", Customers: []string{customer}, Items: len(documents)}, func() ([]priority.Decision, error) {
		return s.inner.SubmitN(ctx, customer, documents, costs)
	})
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) error {
	return s.none(ctx, Call{Operation: "Done", Items: 1, Took: took}, customer, func(ctx context.Context) error {
		return s.inner.Done(ctx, customer, document, took)
	})
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error {
	return s.none(ctx, Call{Operation: "DoneN", Items: len(documents), Took: took}, customer, func(ctx context.Context) error {
		return s.inner.DoneN(ctx, customer, documents, took)
	})
}

func (s *Store) Peek(ctx context.Context, customer string) (state priority.State, err error) {
	err = s.none(ctx, Call{Operation: "Peek"}, customer, func(ctx context.Context) error {
		state, err = s.inner.Peek(ctx, customer)
		return err
	})
	return state, err
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	return s.none(ctx, Call{Operation: "Reset"}, customer, func(ctx context.Context) error {
		return s.inner.Reset(ctx, customer)
	})
}

// Unwrap returns the store whose calls are observed; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.inner }

// one makes a call for one customer that returns one decision, and reports it.
func (s *Store) one(ctx context.Context, c Call, customer string, call func() (priority.Decision, error)) (priority.Decision, error) {
	if len(s.observers) == 0 {
		return call()
	}
	c.Start = time.Now()
	decision, err := call()
	if c.Customers, c.Err = []string{customer}, err; err == nil {
		c.Decisions = []priority.Decision{decision}
	}
	s.tell(ctx, c)
	return decision, err
}

// many makes a call that returns decisions, and reports it.
func (s *Store) many(ctx context.Context, c Call, call func() ([]priority.Decision, error)) ([]priority.Decision, error) {
	c.Start = time.Now()
	c.Decisions, c.Err = call()
	s.tell(ctx, c)
	return c.Decisions, c.Err
}

// none makes a call for one customer that returns no decision, and reports it.
func (s *Store) none(ctx context.Context, c Call, customer string, call func(ctx context.Context) error) error {
	if len(s.observers) == 0 {
		return call(ctx)
	}
	var ended []priority.Ended
	c.Start, c.Customers = time.Now(), []string{customer}
	if c.Operation == "Done" || c.Operation == "DoneN" {
		c.Err = call(priority.WithEnded(ctx, func(e priority.Ended) { ended = append(ended, e) }))
	} else {
		c.Err = call(ctx)
	}
	c.Ended = ended
	s.tell(ctx, c)
	return c.Err
}

func (s *Store) tell(ctx context.Context, call Call) {
	call.Duration = time.Since(call.Start)
	for _, observe := range s.observers {
		observe(ctx, call)
	}
}

// missing stands in for a nil store.
type missing struct{}

var errMissing = fmt.Errorf("%w: observe.New was given a nil store", priority.ErrInvalidOption)

func (missing) Next(context.Context, string) (d priority.Decision, err error) { return d, errMissing }

func (missing) NextN(context.Context, string, int) ([]priority.Decision, error) {
	return nil, errMissing
}

func (missing) NextEach(context.Context, []string) ([]priority.Decision, error) {
	return nil, errMissing
}

func (missing) Submit(context.Context, string, string, float64) (d priority.Decision, err error) {
	return d, errMissing
}

func (missing) SubmitN(context.Context, string, []string, []float64) ([]priority.Decision, error) {
	return nil, errMissing
}

func (missing) Done(context.Context, string, string, time.Duration) error { return errMissing }

func (missing) DoneN(context.Context, string, []string, time.Duration) error { return errMissing }

func (missing) Peek(context.Context, string) (s priority.State, err error) { return s, errMissing }

func (missing) Reset(context.Context, string) error { return errMissing }

func (missing) PolicyOf(string) priority.Policy { return priority.DefaultPolicy() }

func (missing) Last() priority.Level { return priority.DefaultPolicy().Last() }

// Outcome names the class of a call's error, or of one entry of a *BatchError:
//
//   - "ok": there is no error
//   - "invalid", "not_counted", "outcome_unknown" and "corrupt_count": as in
//     [priority.Store]
//   - "partial": a *BatchError of which not all entries failed in the same way
//   - "error": any other
func Outcome(err error) string {
	var batch *priority.BatchError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &batch):
		return outcomeOf(batch)
	case errors.Is(err, priority.ErrInvalid):
		return "invalid"
	case errors.Is(err, priority.ErrCorruptCount):
		return "corrupt_count"
	case errors.Is(err, priority.ErrOutcomeUnknown):
		return "outcome_unknown"
	case errors.Is(err, priority.ErrNotCounted):
		return "not_counted"
	}
	return "error"
}

func outcomeOf(batch *priority.BatchError) string {
	common := ""
	for i, err := range batch.Errs {
		if i > 0 && err == batch.Errs[i-1] {
			continue
		}
		outcome := Outcome(err)
		if common != "" && outcome != common {
			return "partial"
		}
		common = outcome
	}
	if common == "" {
		return "ok"
	}
	return common
}
