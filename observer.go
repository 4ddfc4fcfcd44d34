package priority

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Call is one call of a store or a tracker that has returned, as an [Observer]
// is told of it.
type Call struct {
	// Operation is the method's name: "Next", "NextN", "NextEach", "Peek",
	// "Reset", "Submit", "SubmitN", "Done" or "DoneN".
	Operation string

	// Customers is the customer of the call; of a NextEach, that of each document.
	// It may not be kept or changed.
	Customers []string

	// Items is how many documents the call was for: 0 of a Peek, a Reset and a
	// NextN of a number that it does not take.
	Items int

	// Decisions are what the call returned, nil where it returned none. Where Err
	// is a *BatchError, those of the entries that failed mean nothing. They may not
	// be kept or changed.
	Decisions []Decision

	Start    time.Time
	Duration time.Duration

	// Err is the call's error. Its message names keys, and so customers: what is
	// read by many, as a metric's label, takes [Outcome] of it instead.
	Err error
}

// Observer is told of each call when it has returned, with the call's context,
// before the caller goes on: it must return soon. It must be safe for concurrent
// use and may not use the store. An observer that panics changes nothing for the
// caller, whose document is counted; the first panic is logged by [slog.Default].
type Observer func(ctx context.Context, call Call)

// Outcome names the class of a call's error, or of one entry of a *BatchError:
//
//   - "ok": there is no error
//   - "invalid", "not_counted", "outcome_unknown" and "corrupt_count": as in [Store]
//   - "partial": a *BatchError of which not all entries failed in the same way
//   - "error": any other
func Outcome(err error) string {
	var batch *BatchError
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &batch):
		return batch.outcome()
	case errors.Is(err, ErrInvalid):
		return "invalid"
	case errors.Is(err, ErrCorruptCount):
		return "corrupt_count"
	case errors.Is(err, ErrOutcomeUnknown): // also if it is not known of one store of two
		return "outcome_unknown"
	case errors.Is(err, ErrNotCounted):
		return "not_counted"
	}
	return "error"
}

func (e *BatchError) outcome() string {
	common := ""
	for _, err := range e.Errs {
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

// observers are told of the calls of one store or tracker.
type observers struct {
	all     []Observer
	panicky sync.Once
}

func newObservers(given []Observer) observers {
	var all []Observer
	for _, observe := range given {
		if observe != nil {
			all = append(all, observe)
		}
	}
	return observers{all: all}
}

func (o *observers) none() bool { return len(o.all) == 0 }

// tellOne tells of a call for one customer that returned a decision or an error.
func (o *observers) tellOne(ctx context.Context, operation, customer string, items int, start time.Time, decision Decision, err error) {
	if err != nil {
		o.tell(ctx, operation, []string{customer}, items, start, nil, err)
		return
	}
	o.tell(ctx, operation, []string{customer}, items, start, []Decision{decision}, nil)
}

func (o *observers) tell(ctx context.Context, operation string, customers []string, items int, start time.Time, decisions []Decision, err error) {
	call := Call{
		Operation: operation, Customers: customers, Items: items, Decisions: decisions,
		Start: start, Duration: time.Since(start), Err: err,
	}
	for _, observe := range o.all {
		o.guard(ctx, observe, call)
	}
}

// guard keeps a panic of an observer from the caller, who would lose a decision
// that has been counted.
func (o *observers) guard(ctx context.Context, observe Observer, call Call) {
	defer func() {
		if reason := recover(); reason != nil {
			o.panicky.Do(func() {
				slog.ErrorContext(ctx, "priority: an observer panicked; its further panics are not logged",
					"operation", call.Operation, "panic", reason, "stack", string(debug.Stack()))
			})
		}
	}()
	observe(ctx, call)
}
