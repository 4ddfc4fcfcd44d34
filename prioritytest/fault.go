package prioritytest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/docpriority/priority"
)

// Operation is a method of a [priority.Store] or a [priority.Tracker].
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
// reached: all calls fail with [priority.ErrNotCounted] and none is passed on.
type Fault struct {
	// Class is what the error is by errors.Is: ErrNotCounted, ErrOutcomeUnknown or
	// ErrCorruptCount. As with a Redis store, a Peek of unknown outcome is
	// reported as not counted, and a Reset does not fail where a count is corrupt.
	// Default: priority.ErrNotCounted.
	Class error

	// Cause is what the error wraps beside Class, such as
	// context.DeadlineExceeded. Default: an error that says it was told to.
	Cause error

	// Counted says of ErrOutcomeUnknown that the call arrived and only its answer
	// was lost: it is passed on, and what the store answers is withheld. Default:
	// the call was lost, and is not passed on.
	Counted bool

	// Operations are those that fail. Default: all.
	Operations []Operation

	// Customer is the one whose calls fail; of a NextEach, the one whose entries
	// fail, while the others are passed on. Default (empty): all customers.
	Customer string

	// Calls is how many calls fail. Default (0): all, until Heal.
	Calls int
}

var errTold = errors.New("prioritytest: told to fail")

// faults are what is left of the faults that were told. The zero value is ready
// to use.
type faults struct {
	mu   sync.Mutex
	told []*Fault
}

func (f *faults) add(fault Fault) {
	if fault.Class == nil {
		fault.Class = priority.ErrNotCounted
	}
	if fault.Cause == nil {
		fault.Cause = errTold
	}
	switch {
	case !slices.Contains([]error{priority.ErrNotCounted, priority.ErrOutcomeUnknown, priority.ErrCorruptCount}, fault.Class):
		panic(fmt.Sprintf("prioritytest: the class %v is not ErrNotCounted, ErrOutcomeUnknown or ErrCorruptCount", fault.Class))
	case fault.Counted && fault.Class != priority.ErrOutcomeUnknown:
		panic(fmt.Sprintf("prioritytest: Counted does not go with %v", fault.Class))
	case fault.Calls < 0:
		panic(fmt.Sprintf("prioritytest: %d Calls", fault.Calls))
	}
	fault.Operations = slices.Clone(fault.Operations)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = append(f.told, &fault)
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.told = nil
}

// take returns the first fault that a call meets, and notes that it did; nil if
// it meets none.
func (f *faults) take(ctx context.Context, operation Operation, customers ...string) *Fault {
	if ctx.Err() != nil || len(customers) > priority.MaxDocuments || slices.ContainsFunc(customers, invalid) {
		return nil // nothing would be sent
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.told, func(fault *Fault) bool { return fault.meets(operation, customers) })
	if at < 0 {
		return nil
	}
	met := *f.told[at]
	switch f.told[at].Calls {
	case 0:
	case 1:
		f.told = slices.Delete(f.told, at, at+1)
	default:
		f.told[at].Calls--
	}
	return &met
}

func (f *Fault) meets(operation Operation, customers []string) bool {
	return (len(f.Operations) == 0 || slices.Contains(f.Operations, operation)) &&
		slices.ContainsFunc(customers, f.concerns) &&
		!(operation == Reset && f.Class == priority.ErrCorruptCount)
}

func (f *Fault) concerns(customer string) bool {
	return f.Customer == "" || f.Customer == customer
}

// failed is the error that a Redis store would return.
func (f *Fault) failed(operation Operation, customer string) error {
	class := f.Class
	if operation == Peek && class == priority.ErrOutcomeUnknown {
		class = priority.ErrNotCounted
	}
	return fmt.Errorf("%w: %s %q: %w", class, operation, customer, f.Cause)
}

func invalid(customer string) bool {
	return customer == "" || len(customer) > priority.MaxCustomerBytes
}

// policyOf returns the policy by which a store or a tracker decides: the default
// policy where it does not tell.
func policyOf(told any, customer string) priority.Policy {
	if p, ok := told.(interface {
		PolicyOf(customer string) priority.Policy
	}); ok {
		return p.PolicyOf(customer)
	}
	return priority.DefaultPolicy()
}
