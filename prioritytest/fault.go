package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/docpriority/priority"
)

// Operation is a method of a [priority.Store].
type Operation string

// The operations, by the methods' names.
const (
	Next     Operation = "Next"
	NextN    Operation = "NextN"
	NextEach Operation = "NextEach"
	Submit   Operation = "Submit"
	SubmitN  Operation = "SubmitN"
	Done     Operation = "Done"
	DoneN    Operation = "DoneN"
	Peek     Operation = "Peek"
	Reset    Operation = "Reset"
)

// Fault says which calls fail, and how. The zero Fault is a Redis that cannot be
// reached: all calls fail with [priority.ErrNotCounted] and are not passed on.
//
// A Redis that hangs is {Class: priority.ErrOutcomeUnknown, Delay: 250 *
// time.Millisecond}: a RedisStore returns after its Timeout. A Redis that is only
// slow is {Slow: true, Delay: …}.
type Fault struct {
	// Class is the class of the error: ErrNotCounted, ErrOutcomeUnknown or
	// ErrCorrupt. As with a RedisStore, a Peek of unknown outcome fails with
	// ErrNotCounted, and a corrupt count does not make a Reset fail. Default:
	// priority.ErrNotCounted.
	Class error

	// Cause is what the error wraps besides Class, such as
	// context.DeadlineExceeded. Default: an error that says that it was injected.
	Cause error

	// Counted says, for ErrOutcomeUnknown, that the call arrived and only its
	// answer was lost: the call is passed on, and the store's answer is withheld.
	// Default: the call was lost, and is not passed on.
	Counted bool

	// Delay is how long a call takes before it fails, by the clock of time.Sleep.
	// It fails earlier if the caller's context ends, with the context's error as
	// its cause, or if the fault is healed. Default: 0.
	Delay time.Duration

	// Slow says that calls do not fail: after Delay they are passed on. A call
	// whose context ends before that fails with ErrNotCounted.
	Slow bool

	// Operations are the operations that fail. Default: all.
	Operations []Operation

	// Customer is the customer whose calls fail. In a NextEach only this customer's
	// entries fail, and the others are passed on. Default (empty): all customers.
	Customer string

	// Calls is how many calls fail. Default (0): all, until Heal.
	Calls int
}

var errInjected = errors.New("prioritytest: injected failure")

// faultList is the faults that have not ended. The zero value is ready to use.
type faultList struct {
	mu     sync.Mutex
	faults []*Fault
	healed chan struct{} // closed by heal; nil if no fault was added since
}

// met is a fault that a call meets.
type met struct {
	Fault
	healed <-chan struct{}
}

func (f *faultList) add(fault Fault) {
	fault.check()
	if fault.Class == nil {
		fault.Class = priority.ErrNotCounted
	}
	if fault.Cause == nil {
		fault.Cause = errInjected
	}
	fault.Operations = slices.Clone(fault.Operations)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults = append(f.faults, &fault)
	if f.healed == nil {
		f.healed = make(chan struct{})
	}
}

func (f *Fault) check() {
	switch {
	case !slices.Contains([]error{nil, priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorrupt}, f.Class):
		panic(fmt.Sprintf("prioritytest: the class %v is not ErrNotCounted, ErrOutcomeUnknown or ErrCorrupt", f.Class))
	case f.Counted && f.Class != priority.ErrOutcomeUnknown:
		panic(fmt.Sprintf("prioritytest: Counted does not go with %v", f.Class))
	case f.Slow && (f.Class != nil || f.Cause != nil || f.Delay == 0):
		panic("prioritytest: Slow goes with a Delay, and without a Class or a Cause")
	case f.Delay < 0:
		panic(fmt.Sprintf("prioritytest: a Delay of %v", f.Delay))
	case f.Calls < 0:
		panic(fmt.Sprintf("prioritytest: %d Calls", f.Calls))
	}
}

func (f *faultList) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.healed != nil {
		close(f.healed)
	}
	f.faults, f.healed = nil, nil
}

// take returns the first fault that a call meets and counts the call, or returns
// nil.
func (f *faultList) take(ctx context.Context, operation Operation, customers ...string) *met {
	if ctx.Err() != nil {
		return nil // nothing would be sent
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.faults, func(fault *Fault) bool { return fault.meets(operation, customers) })
	if at < 0 {
		return nil
	}
	m := &met{*f.faults[at], f.healed}
	switch f.faults[at].Calls {
	case 0:
	case 1:
		f.faults = slices.Delete(f.faults, at, at+1)
	default:
		f.faults[at].Calls--
	}
	return m
}

func (f *Fault) meets(operation Operation, customers []string) bool {
	return (len(f.Operations) == 0 || slices.Contains(f.Operations, operation)) &&
		slices.ContainsFunc(customers, f.concerns) &&
		!(operation == Reset && f.Class == priority.ErrCorrupt)
}

func (f *Fault) concerns(customer string) bool {
	return f.Customer == "" || f.Customer == customer
}

// wait waits for the delay, and returns why the call fails, or nil.
func (m *met) wait(ctx context.Context) error {
	if m.Delay > 0 {
		timer := time.NewTimer(m.Delay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-m.healed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if m.Slow {
		return nil
	}
	return m.Cause
}

// failed returns the error that a RedisStore would return.
func (f *Fault) failed(operation Operation, customer string, cause error) error {
	class := f.Class
	if operation == Peek && class == priority.ErrOutcomeUnknown {
		class = priority.ErrNotCounted
	}
	return fmt.Errorf("%w: %s %q: %w", class, operation, customer, cause)
}
