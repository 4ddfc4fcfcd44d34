// Package priority assigns processing priorities to the documents of many
// customers, from how much each customer has sent lately. The numbers live in
// Redis, so all workers of a fleet agree.
//
// # The rule
//
// Each customer has a count. For each document: if there is no count, or more
// than the reset interval (1500 s) has passed since the customer's last
// document, the count is 0; otherwise it goes down by one. The count is then
// looked up in the thresholds:
//
//	count  >= -2  < -2  < -4  < -6  < -8  < -10  < -12  < -14  < -20
//	level      1     2     3     4     5      6      7      8      9
//
// So a new customer's first three documents have level 1, which is processed
// first; two each have 2, 3, 4, 5, 6 and 7; six have 8; and all from the 22nd
// have 9. A lower count means more documents. A [Policy] has other thresholds,
// another interval, or lets the interval run since the last reset.
//
// # By load
//
// A count remembers what a customer has sent. A customer who sends all day never pauses,
// and ends at level 9 though hardly anything of theirs waits. The second rule also asks
// what is pending now:
//
//	load = submitted lately × pending × cost
//
//	load, up to  2  8  32  128  512  2048  8192  32768  more
//	level        1  2   3    4    5     6     7      8     9
//
// Of what was submitted lately, each document counts 1, half of it a day later, and so
// on, at most 512 together. A document is pending from Submit to Done. The cost is how much
// work the new document is, divided by the average document. The new document is counted in
// lately and in pending. So 12 lately, 6 pending and a cost of 1 are a load of 72, level 4.
//
// # Use
//
// Make one [RedisStore] for the process with [NewRedisStore], on a go-redis client of any
// kind. When a document arrives, ask for its level and put it into the queue with it:
//
//	decision, err := store.Next(ctx, customer)                 // by count
//	decision, err := store.Submit(ctx, customer, document, 0)  // by load, and Done when it is processed
//
// Take Submit and Done if some customers send all day, or if you do not know how they send.
// Take Next if they pause between their bursts, or if nobody can tell when a document is
// done. The two share nothing: take one of them for a customer. See docs/rules.md.
//
// # Packages
//
// A [Store] may be wrapped, in this order: package control lets operators change
// policies and customers' levels while the fleet runs, package fallback answers while
// Redis cannot be reached, package observe reports every call. Package memory
// implements Store in one process, package queue translates a level for each queue, and
// package prioritytest has what tests need.
package priority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"
)

// Level is a document's processing priority: [First] (1) is processed first, the
// policy's [Policy.Last] (9 by default) last.
type Level int

// First is the level that is processed first.
const First Level = 1

// The largest inputs that a [Store] takes.
const (
	MaxCustomerBytes = 512       // a customer's length in bytes
	MaxDocumentBytes = 512       // a document id's length in bytes
	MaxDocuments     = 1_000_000 // documents in one call
)

// Decision is the level of one document, and the numbers behind it. With an error it is
// the zero Decision, whose Level 0 is not a level: choose a level yourself.
type Decision struct {
	// Level is the document's priority, from First to the policy's Last.
	Level Level

	// Count is the customer's count after this document: 0 after a reset, then
	// -1, -2 and so on. It goes down as load goes up. Submit and SubmitN leave it 0.
	Count int64

	// ResetIn is the time until the count is reset if nothing more comes. Submit and
	// SubmitN leave it 0.
	ResetIn time.Duration

	// Load is the document's load: submitted lately × pending × cost, this document
	// included, at most a billion. Next, NextN and NextEach leave it 0.
	Load float64

	// Pending is how many documents of the customer are submitted, not done, and
	// within their leases, this one included. Load leaves out those that were given the
	// last level, and Pending does not. Next, NextN and NextEach leave it 0.
	Pending int64

	// Degraded reports that the fleet's numbers could not be reached and a fallback
	// answered with its own.
	Degraded bool

	// Ruled is the level without an operator's [Override], if one is in force for the
	// customer, even if Level is the same; else 0.
	Ruled Level
}

// Rule is one of the two rules by which a document gets its level.
type Rule int

const (
	Unknown Rule = iota // nothing is known about the customer
	ByCount             // Next, NextN and NextEach
	ByLoad              // Submit and SubmitN
)

// String returns "unknown", "by count" or "by load".
func (r Rule) String() string {
	switch r {
	case Unknown:
		return "unknown"
	case ByCount:
		return "by count"
	case ByLoad:
		return "by load"
	}
	return fmt.Sprintf("Rule(%d)", int(r))
}

// State is all that is known about a customer: enough to say why a document has its
// level, and which level comes next.
type State struct {
	// Rule is the rule that the customer is counted by: ByLoad if anything that was
	// submitted is still remembered, else ByCount if there is a count.
	Rule Rule

	// Level is the level of the customer's last document. By load, it is the level of
	// the newest pending document, and 0 if none is pending.
	Level Level

	// NextLevel is the level of a document that arrives now and costs what the
	// customer's documents cost, by the operators' override if there is one.
	NextLevel Level

	// Override is what operators have set for the customer, and OverrideEndsIn the time
	// until it ends; 0: it has no end. Ruled is NextLevel without it. All are zero if there
	// is no override, or the store does not read overrides.
	Override       Override
	OverrideEndsIn time.Duration
	Ruled          Level

	// Count is the count after the last Next, and ResetIn the time from now until it is
	// reset if nothing more comes; 0 if there is no count.
	Count   int64
	ResetIn time.Duration

	// Load is the load of a document that arrives now, and includes it. Lately is how many
	// documents were submitted lately, at most 512, without it; Cost is what the
	// customer's documents cost, as Done has learned, where 1 is the average of all
	// customers. The fields from Load to Lease are 0 unless Rule is ByLoad.
	Load, Lately, Cost float64

	// Pending is how many documents are pending. PendingLast of them were given the
	// last level, or one of the Turns behind it, and do not count in Load.
	Pending, PendingLast int64

	// Oldest is the age of the oldest pending document. Sojourn is the average time
	// from Submit to Done, 0 if it is not known. Lease is how long a document counts as
	// pending if nobody finishes it.
	Oldest, Sojourn, Lease time.Duration

	// Degraded reports that the fleet's numbers could not be reached and a fallback
	// answered with its own.
	Degraded bool
}

// Store counts documents and decides their levels. All implementations are safe
// for concurrent use.
//
// A customer is any 1 to [MaxCustomerBytes] bytes. A document is known among its
// customer's documents by an id of 1 to [MaxDocumentBytes] bytes.
//
// A call without an error has counted its documents exactly once; a document that is
// pending is not counted again. A call with an error has counted them at most once.
// Distinguish four kinds with [errors.Is]:
//
//   - [ErrInvalid]: the call was wrong; nothing was sent. Fix the call.
//   - [ErrNotCounted]: definitely not counted. The call may be made again.
//   - [ErrOutcomeUnknown]: it may have been counted. Go on with a level of your own
//     choice. Do not repeat a Next; a Submit and a Done may be repeated.
//   - [ErrCorruptCount]: the key named in the message holds something that no Store
//     writes there, and was left as it is.
type Store interface {
	// Next counts one document of the customer and returns its level, by count.
	Next(ctx context.Context, customer string) (Decision, error)

	// NextN counts n documents of one customer at once: the same decisions as n
	// calls of Next with nothing in between, atomic, in one round trip. n is 0 to
	// MaxDocuments; 0 returns nothing and counts nothing.
	NextN(ctx context.Context, customer string, n int) ([]Decision, error)

	// NextEach counts one document for each entry of customers, in order; a
	// customer may be named more than once. It returns one decision per entry.
	// It is not atomic across customers: if some entries fail, the error is a
	// *BatchError with the error of each, and the other decisions stand.
	NextEach(ctx context.Context, customers []string) ([]Decision, error)

	// Submit decides about one document by its load and makes it pending. cost is how
	// much work the document is, at least 0, in any unit that all documents share: pages,
	// tokens, bytes. The load takes it divided by the average of the documents that this
	// process has submitted with a cost, at most 100; until those are a hundred, it takes 1.
	// A cost of 0 means that it is not known. Then the load takes what Done has learned of
	// the customer's documents, and 1 until there is enough of that.
	//
	// Documents that were given the last level of the policy's Loads, or one of its
	// Turns, do not count as pending for the next ones.
	//
	// A document without a Done stays pending for its lease, and is then forgotten. The
	// lease is 20 times the customer's average time from Submit to Done, from 3 minutes
	// to a day; before the first Done it is a day, or the store's Lease.
	//
	// A Submit of a pending document, such as one that the queue delivers again, counts
	// nothing, renews its lease, and returns the level that it would get now. So Submit
	// may be repeated. For the same reason the service must choose the ids: customers who
	// could give many documents one id would have them all counted as one.
	Submit(ctx context.Context, customer, document string, cost float64) (Decision, error)

	// SubmitN submits documents of one customer, in order, in one round trip. costs has
	// the cost of each, or is nil: not known. It returns one decision per document. If
	// some fail, the error is a *BatchError with the error of each, and the other
	// decisions stand. There are at most MaxDocuments of them.
	SubmitN(ctx context.Context, customer string, documents []string, costs []float64) ([]Decision, error)

	// Done ends a document's pending state. For a document that is unknown, done
	// already or forgotten it does nothing, so it may always be sent again. took
	// is how long the document was worked on, at least 0; 0 means that it is not
	// known. Divided by the average of the Dones that this process has sent with a time,
	// once those are a hundred, it is learned as the cost of the customer's documents, for
	// those that are submitted without one. See also [WithEnded].
	Done(ctx context.Context, customer, document string, took time.Duration) error

	// DoneN ends many documents of one customer in one round trip; took is the time
	// for all of them together. If some fail, the error is a *BatchError.
	DoneN(ctx context.Context, customer string, documents []string, took time.Duration) error

	// Peek returns what is known of a customer, and writes nothing. Its State is by load
	// if anything was submitted lately or is pending, else by count.
	Peek(ctx context.Context, customer string) (State, error)

	// Reset forgets all that is known of the customer: the next document is counted
	// as the first. It also removes corrupt values; see ErrCorruptCount.
	Reset(ctx context.Context, customer string) error

	// PolicyOf returns the policy that decides for a customer, with every field
	// filled in.
	PolicyOf(customer string) Policy

	// Last returns the last level that any customer can get. It is what the
	// functions of package queue take.
	Last() Level
}

// As finds the first store of type T in a chain of wrappers, from the outside in. T is an
// interface, or a type such as *RedisStore.
//
//	redisStore, ok := priority.As[*priority.RedisStore](store)
//
// As looks into a struct that embeds a Store, so type mine struct{ priority.Store } hides
// nothing. Another wrapper has a method Unwrap() Store. As looks at a hundred stores.
func As[T any](store Store) (found T, ok bool) {
	for range 100 {
		if store == nil {
			break
		}
		if found, ok = store.(T); ok {
			return found, true
		}
		store = unwrap(store)
	}
	return found, false
}

// unwrap returns the store that a store wraps, nil if there is none.
func unwrap(store Store) Store {
	// What is embedded comes first: its own Unwrap is the struct's, and would skip it.
	if wrapper := reflect.Indirect(reflect.ValueOf(store)); wrapper.Kind() == reflect.Struct {
		for i := range wrapper.NumField() {
			field, value := wrapper.Type().Field(i), wrapper.Field(i)
			if !field.Anonymous || !field.IsExported() {
				continue
			}
			if inner, ok := value.Interface().(Store); ok {
				if value.Kind() == reflect.Pointer && value.IsNil() {
					return nil
				}
				return inner
			}
		}
	}
	if wrapper, ok := store.(interface{ Unwrap() Store }); ok {
		return wrapper.Unwrap()
	}
	return nil
}

var (
	// ErrInvalid is what every error of a wrong call or option wraps. Nothing
	// was sent and nothing was counted.
	ErrInvalid = errors.New("priority: invalid")

	// ErrInvalidCustomer: a customer is 1 to MaxCustomerBytes bytes.
	ErrInvalidCustomer = fmt.Errorf("%w customer", ErrInvalid)
	// ErrInvalidDocument: a document's id is 1 to MaxDocumentBytes bytes.
	ErrInvalidDocument = fmt.Errorf("%w document", ErrInvalid)
	// ErrInvalidCost: a cost is a finite number of at least 0, and there is one for
	// each document.
	ErrInvalidCost = fmt.Errorf("%w cost", ErrInvalid)
	// ErrInvalidCount: the number of documents in one call is 0 to MaxDocuments.
	ErrInvalidCount = fmt.Errorf("%w number of documents", ErrInvalid)
	// ErrInvalidPolicy: the message names the field.
	ErrInvalidPolicy = fmt.Errorf("%w policy", ErrInvalid)
	// ErrInvalidOption: a constructor or a call was given an option or argument
	// that it cannot take.
	ErrInvalidOption = fmt.Errorf("%w option", ErrInvalid)

	// ErrNotCounted: the document was definitely not counted, because Redis
	// refused the command or never got it. The caller may try again.
	ErrNotCounted = errors.New("priority: not counted")

	// ErrOutcomeUnknown: the command was sent and no answer came, so the document
	// may have been counted. The caller goes on with a level of its own choice. A Next
	// must not be repeated, as it could count twice; a Submit and a Done may be.
	ErrOutcomeUnknown = errors.New("priority: outcome unknown")

	// ErrCorruptCount: the key named in the message holds something other than a
	// count, pending documents or a usage. It was left as it is; Reset removes it.
	ErrCorruptCount = errors.New("priority: corrupt count")
)

// BatchError is the error of a NextEach, SubmitN, DoneN or [RedisStore.PeekEach] of which
// some entries failed.
type BatchError struct {
	// Errs has one error an entry, in the order of the call: nil where it worked.
	Errs []error
}

// Error counts the failures and shows the first.
func (e *BatchError) Error() string {
	failed, first := 0, error(nil)
	for _, err := range e.Errs {
		if err != nil {
			failed++
			first = cmp.Or(first, err)
		}
	}
	return fmt.Sprintf("priority: %d of %d documents failed, the first with: %v", failed, len(e.Errs), first)
}

// Unwrap returns the errors of the failed entries. An error that several neighboring
// entries share is returned once.
func (e *BatchError) Unwrap() []error {
	var failed []error
	for i, err := range e.Errs {
		if err != nil && (i == 0 || err != e.Errs[i-1]) {
			failed = append(failed, err)
		}
	}
	return failed
}

// ItemErrors returns the errors of the n entries of a call that returned err: the Errs of
// a *BatchError, or err for each.
func ItemErrors(err error, n int) []error {
	var batch *BatchError
	if errors.As(err, &batch) && len(batch.Errs) == n {
		return batch.Errs
	}
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// CheckCustomer returns an error that wraps [ErrInvalidCustomer] unless a Store
// takes the customer. Implementations of Store call it.
func CheckCustomer(customer string) error {
	if n := len(customer); n == 0 || n > MaxCustomerBytes {
		return fmt.Errorf("%w: %.80q has %d bytes, not 1 to %d", ErrInvalidCustomer, customer, n, MaxCustomerBytes)
	}
	return nil
}

// CheckN checks the arguments of NextN.
func CheckN(customer string, n int) error {
	if err := CheckCustomer(customer); err != nil {
		return err
	}
	if n < 0 || n > MaxDocuments {
		return fmt.Errorf("%w: %d is not 0 to %d", ErrInvalidCount, n, MaxDocuments)
	}
	return nil
}

// CheckEach checks the arguments of NextEach and PeekEach.
func CheckEach(customers []string) error {
	if n := len(customers); n > MaxDocuments {
		return fmt.Errorf("%w: %d customers in one call, more than %d", ErrInvalidCount, n, MaxDocuments)
	}
	for i, customer := range customers {
		if err := CheckCustomer(customer); err != nil {
			return fmt.Errorf("%w (customers[%d])", err, i)
		}
	}
	return nil
}

// CheckDone checks the arguments of Done and DoneN.
func CheckDone(customer string, documents []string, took time.Duration) error {
	if err := checkDocuments(customer, documents); err != nil {
		return err
	}
	if took < 0 {
		return fmt.Errorf("%w: a document cannot have taken %v", ErrInvalidOption, took)
	}
	return nil
}

// CheckSubmit checks the arguments of Submit and SubmitN.
func CheckSubmit(customer string, documents []string, costs []float64) error {
	if err := checkDocuments(customer, documents); err != nil {
		return err
	}
	if costs != nil && len(costs) != len(documents) {
		return fmt.Errorf("%w: %d costs for %d documents", ErrInvalidCost, len(costs), len(documents))
	}
	for i, cost := range costs {
		if !(cost >= 0) || math.IsInf(cost, 1) {
			return fmt.Errorf("%w: %v (document %.80q)", ErrInvalidCost, cost, documents[i])
		}
	}
	return nil
}

func checkDocuments(customer string, documents []string) error {
	if err := CheckCustomer(customer); err != nil {
		return err
	}
	if n := len(documents); n > MaxDocuments {
		return fmt.Errorf("%w: %d documents in one call, more than %d", ErrInvalidCount, n, MaxDocuments)
	}
	for i, document := range documents {
		if n := len(document); n == 0 || n > MaxDocumentBytes {
			return fmt.Errorf("%w: %.80q has %d bytes, not 1 to %d (documents[%d])", ErrInvalidDocument, document, n, MaxDocumentBytes, i)
		}
	}
	return nil
}

// Ended is a document that was pending until its Done.
type Ended struct {
	Document string
	Sojourn  time.Duration // from Submit to Done, in whole milliseconds
	Level    Level         // as Submit returned it, an operator's override included
}

// WithEnded returns a context whose Done and DoneN report each document that they end,
// before they return. Documents that were not pending are not reported, nor those whose
// Done was sent again after a lost reply. A report that ctx already has is called too;
// a nil report removes it.
func WithEnded(ctx context.Context, report func(Ended)) context.Context {
	outer, _ := ctx.Value(endedKey{}).(func(Ended))
	if outer != nil && report != nil {
		inner := report
		report = func(e Ended) {
			inner(e)
			outer(e)
		}
	}
	return context.WithValue(ctx, endedKey{}, report)
}

// ReportEnded reports a document to the function of [WithEnded], if ctx has one.
// Implementations of Store call it.
func ReportEnded(ctx context.Context, e Ended) {
	if report, _ := ctx.Value(endedKey{}).(func(Ended)); report != nil {
		report(e)
	}
}

type endedKey struct{}
