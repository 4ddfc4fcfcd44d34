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

	// Customer is the customer of the call. A NextEach has the customer of each entry in
	// Customers instead; do not keep or change them.
	Customer  string
	Customers []string

	// Items is how many documents the call was for: 0 for a Peek, a Reset and a
	// NextN with an invalid number.
	Items int

	// Took is the processing time of all documents of a Done or DoneN together; 0 if
	// unknown.
	Took time.Duration

	// Ended is what a Done or DoneN returned: for each document how long it was pending, and
	// its level; Level 0: it was not pending. Do not keep or change it.
	Ended []priority.Ended

	// Decisions are what the call returned, nil if it returned no decisions. If Err
	// is a *BatchError, the decisions of failed entries mean nothing. Do not keep
	// or change them.
	Decisions []priority.Decision

	Start    time.Time
	Duration time.Duration

	// Err is the call's error. Its message names keys, and so customers. Where many
	// people read it, as in a metric's label, use its [Outcome] instead.
	Err error
}

// CustomerOf returns the customer of a call's document.
func (c Call) CustomerOf(document int) string {
	if c.Customers != nil {
		return c.Customers[document]
	}
	return c.Customer
}

// Func is called after each call of a Store, with the call's context, before the
// caller goes on: it must return soon, be safe for concurrent use, and not
// use the store.
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
// the other. Nil observers are left out. If store is nil, the error wraps
// [priority.ErrInvalid].
func New(store priority.Store, observers ...Func) (*Store, error) {
	if typednil.Is(store) {
		return nil, fmt.Errorf("%w option: observe.New was given a nil store", priority.ErrInvalid)
	}
	s := &Store{inner: store}
	for _, observe := range observers {
		if observe != nil {
			s.observers = append(s.observers, observe)
		}
	}
	return s, nil
}

func (s *Store) Next(ctx context.Context, customer string) (priority.Decision, error) {
	return s.one(ctx, Call{Operation: "Next", Customer: customer, Items: 1}, func() (priority.Decision, error) {
		return s.inner.Next(ctx, customer)
	})
}

func (s *Store) NextN(ctx context.Context, customer string, n int) ([]priority.Decision, error) {
	items := n
	if n < 0 || n > priority.MaxDocuments {
		items = 0 // n is not a valid number of documents
	}
	return s.many(ctx, Call{Operation: "NextN", Customer: customer, Items: items}, func() ([]priority.Decision, error) {
		return s.inner.NextN(ctx, customer, n)
	})
}

func (s *Store) NextEach(ctx context.Context, customers []string) ([]priority.Decision, error) {
	return s.many(ctx, Call{Operation: "NextEach", Customers: customers, Items: len(customers)}, func() ([]priority.Decision, error) {
		return s.inner.NextEach(ctx, customers)
	})
}

func (s *Store) Submit(ctx context.Context, customer string, document priority.Document) (priority.Decision, error) {
	return s.one(ctx, Call{Operation: "Submit", Customer: customer, Items: 1}, func() (priority.Decision, error) {
		return s.inner.Submit(ctx, customer, document)
	})
}

func (s *Store) SubmitN(ctx context.Context, customer string, documents []priority.Document) ([]priority.Decision, error) {
	return s.many(ctx, Call{Operation: "SubmitN", Customer: customer, Items: len(documents)}, func() ([]priority.Decision, error) {
		return s.inner.SubmitN(ctx, customer, documents)
	})
}

func (s *Store) Done(ctx context.Context, customer, document string, took time.Duration) (priority.Ended, error) {
	if len(s.observers) == 0 {
		return s.inner.Done(ctx, customer, document, took)
	}
	c := Call{Operation: "Done", Customer: customer, Items: 1, Took: took, Start: time.Now()}
	ended, err := s.inner.Done(ctx, customer, document, took)
	if c.Err = err; err == nil {
		c.Ended = []priority.Ended{ended}
	}
	s.tell(ctx, c)
	return ended, err
}

func (s *Store) DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]priority.Ended, error) {
	c := Call{Operation: "DoneN", Customer: customer, Items: len(documents), Took: took, Start: time.Now()}
	c.Ended, c.Err = s.inner.DoneN(ctx, customer, documents, took)
	s.tell(ctx, c)
	return c.Ended, c.Err
}

func (s *Store) Peek(ctx context.Context, customer string) (priority.State, error) {
	start := time.Now()
	state, err := s.inner.Peek(ctx, customer)
	s.tell(ctx, Call{Operation: "Peek", Customer: customer, Start: start, Err: err})
	return state, err
}

func (s *Store) Reset(ctx context.Context, customer string) error {
	start := time.Now()
	err := s.inner.Reset(ctx, customer)
	s.tell(ctx, Call{Operation: "Reset", Customer: customer, Start: start, Err: err})
	return err
}

// Unwrap returns the store whose calls are observed; see [priority.As].
func (s *Store) Unwrap() priority.Store { return s.inner }

// one makes a call for one customer that returns one decision, and reports it.
func (s *Store) one(ctx context.Context, c Call, call func() (priority.Decision, error)) (priority.Decision, error) {
	if len(s.observers) == 0 {
		return call()
	}
	c.Start = time.Now()
	decision, err := call()
	if c.Err = err; err == nil {
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

func (s *Store) tell(ctx context.Context, call Call) {
	call.Duration = time.Since(call.Start)
	for _, observe := range s.observers {
		observe(ctx, call)
	}
}

// Outcome names the class of a call's error, or of one entry of a *BatchError:
//
//   - "ok": there is no error
//   - "invalid", "not_counted", "outcome_unknown" and "corrupt": as in
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
	case errors.Is(err, priority.ErrCorrupt):
		return "corrupt"
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
