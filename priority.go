// Package priority gives each document of each customer a level from 1 (processed first) to 9
// (processed last) when it arrives, based on how much that customer has sent recently. One
// customer's flood no longer makes the others wait.
//
//	store, err := fleet.Join(client, nil)                      // once, in each process
//	invoice := priority.Document{ID: "invoice-4711", Cost: 12} // 12 pages; 0 if unknown
//	decision, err := store.Submit(ctx, "acme", invoice)        // it has arrived
//	publish(invoice, decision.Level)                           // into your queue; 1 is first
//	_, err = store.Done(ctx, "acme", "invoice-4711", took)     // when it is processed
//
// The client comes from go-redis v9: the numbers live in Redis, so all processes agree. A
// document is done when it has been processed or has failed permanently.
//
// Use Submit and Done if a worker can tell when a document is done; otherwise use only Next,
// which counts documents. The rules share no data, so use one per customer. A level never
// changes once it is given.
//
// # By load: Submit and Done
//
//	load = recent × pending × cost
//
//	load, up to                            8  64  512  8192  32768   beyond: a flood
//	level                                  1   2    3     4      5
//	pending documents of the flood, up to  15  255  4095  more
//	level                                   6    7     8     9
//
// Recent is how many documents the customer has submitted: each counts 1, then half as much
// after each day, at most 512 together. A document is pending from Submit to Done, and one with
// a Delay from when it is due. The cost
// is the value passed to Submit, in any unit, divided by the usual cost; if it is 0, what the
// customer's documents usually cost, as learned from Done, is used. The new document counts as
// recent and as pending: 10 recent, 10 pending and a cost of 1 are a load of 100, level 3.
//
// The documents of a flood do not count as pending in the load, so the customer gets better
// levels again as soon as its other documents are done. Of 300 documents that a new customer
// submits at once, the first 181 get the levels 1 to 5, the next 15 level 6, and the others,
// the 300th too, level 7. The first 181 documents of any other new customer go before them.
//
// # By count: Next
//
// Each customer has a count. It is 0 for the first document, and for one that comes more than
// 1500 s after the previous one; every other document lowers it by one.
//
//	count  >= -2  < -2  < -4  < -6  < -8  < -10  < -12  < -14  < -20
//	level      1     2     3     4     5      6      7      8      9
//
// So a new customer's documents 1 to 3 get level 1, the next ones levels 2 to 7, two each,
// then six get level 8, and all from the 22nd on level 9. A customer who never pauses for 1500
// s stays there.
//
// # Packages
//
// fleet.Join assembles a [Store]: a [RedisStore], package control, with which operators
// change policies and customers' levels while the fleet runs, and package fallback, which
// answers within 250 ms while Redis cannot be reached, with Decision.Degraded and without an
// error. Package observe reports every call, memory is a Store in one process, queue converts
// a level to the queue's own priority, and prioritytest provides test helpers. A [Policy]
// changes the numbers of either rule.
package priority

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/docpriority/priority/internal/check"
	"github.com/docpriority/priority/internal/typednil"
)

// Level is a document's processing priority: [First] (1) is processed first, the
// policy's [Policy.Last] (9 by default) last.
type Level int

// First is the level that is processed first.
const First Level = 1

// The largest inputs that a [Store] takes.
const (
	MaxCustomerBytes = check.MaxCustomerBytes // 512: a customer's length in bytes
	MaxDocumentBytes = check.MaxDocumentBytes // 512: a document id's length in bytes
	MaxDocuments     = check.MaxDocuments     // 1,000,000: documents in one call

	MaxDelay = 365 * 24 * time.Hour // of a document
)

// Decision is the level of one document, and the numbers behind it. With an error it is
// the zero Decision, whose Level 0 is not a level: choose a level yourself.
type Decision struct {
	// Level is the document's priority, from First to the policy's Last.
	Level Level

	// Count is the customer's count after this document: 0 after a reset, then
	// -1, -2 and so on. Submit and SubmitN leave it 0.
	Count int64

	// ResetIn is the time until the count is reset if no document arrives. Submit and
	// SubmitN leave it 0.
	ResetIn time.Duration

	// Load is the document's load: recent × pending × cost, this document
	// included, at most a billion. Next, NextN and NextEach leave it 0.
	Load float64

	// Pending is how many of the customer's documents are submitted, not done, and within
	// their leases when this one is due, itself included. Unlike Load, it includes documents
	// beyond the last load. Next, NextN and NextEach leave it 0.
	Pending int64

	// Degraded reports whether a fallback answered with its own numbers: the fleet's
	// were unreachable.
	Degraded bool

	// RuleLevel is the level by the rule alone. Level may differ from it while an
	// operator's override is in force: see [Bounds].
	RuleLevel Level
}

// Document is what Submit is told about a document.
type Document struct {
	// ID names the document, uniquely within its customer: 1 to [MaxDocumentBytes] bytes. The
	// service must choose it: a customer who gives many documents one id has them all counted
	// as one.
	ID string

	// Cost is how much work the document is, at least 0, in any unit that all documents share:
	// pages, tokens, bytes. Default: 0, unknown.
	Cost float64

	// Delay is how much later the document is due, at most [MaxDelay]; fractions of a millisecond
	// are dropped. It counts as recent and as pending from then on, and its level is by what is
	// pending then. Pass the delay that its queue gets. Default: 0, it is due now.
	Delay time.Duration
}

// Validate returns an error that wraps [ErrInvalid] and shows what is wrong, or nil.
func (d Document) Validate() error {
	if err := check.ID(d.ID); err != nil {
		return err
	}
	if !(d.Cost >= 0) || math.IsInf(d.Cost, 1) {
		return fmt.Errorf("%w cost: %v is not 0 (unknown) or a positive finite number (document %.80q)", ErrInvalid, d.Cost, d.ID)
	}
	if d.Delay < 0 || d.Delay > MaxDelay {
		return fmt.Errorf("%w delay: %v is not from 0 to %v (document %.80q)", ErrInvalid, d.Delay, MaxDelay, d.ID)
	}
	return nil
}

// Store counts documents and decides their levels. All implementations are safe
// for concurrent use.
//
// A customer is any 1 to [MaxCustomerBytes] bytes. A document's id, unique within its
// customer, is 1 to [MaxDocumentBytes] bytes.
//
// A call without an error has counted its documents exactly once, in memory if the Decision is
// Degraded; a document that is pending is not counted again. A call with an error has counted
// them at most once. Distinguish four kinds with [errors.Is]:
//
//   - [ErrInvalid]: the call was wrong; nothing was sent. Fix the call.
//   - [ErrNotCounted]: definitely not counted. The call may be made again.
//   - [ErrOutcomeUnknown]: it may have been counted. Go on with a level of your choice. Do
//     not repeat a Next; a Submit and a Done may be repeated.
//   - [ErrCorrupt]: the key named in the message holds something that no Store
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

	// Submit decides about one document by its load and makes it pending. The load uses the
	// cost divided by the usual cost, at most 100; until three customers are known, it uses 1.
	// The usual cost is the geometric mean of the customers of this process, without the
	// cheapest fifth and the dearest fifth, so that no customer moves it far; each has the
	// median of their latest three costs. Without a cost, the load uses what Done has learned
	// about the customer's documents, or 1 until it has learned enough.
	//
	// Documents beyond the last of the policy's Loads do not count as pending for the next
	// ones.
	//
	// Without a Done, a document is pending until its lease expires, and is then forgotten.
	// The lease is 20 times the customer's average time until Done, at least 3 minutes and at
	// most the store's Lease; before the first Done, and for documents of a flood, it is the
	// store's Lease, a day by default. It begins when the document is due.
	//
	// A Submit of a pending document, such as one that the queue redelivers, counts nothing,
	// renews its lease, takes its new Delay, and returns the level that the document has. So
	// Submit may be repeated.
	Submit(ctx context.Context, customer string, document Document) (Decision, error)

	// SubmitN submits documents of one customer, in order, in one round trip or a few.
	// A repeated call returns the same levels. It returns one decision per document. If some fail, the
	// error is a *BatchError with the error of each, and the other decisions stand. A call
	// takes at most MaxDocuments.
	SubmitN(ctx context.Context, customer string, documents []Document) ([]Decision, error)

	// Done ends a document's pending state: it was processed, has failed permanently or was
	// dropped. It does nothing for a document that is unknown, already done or forgotten, so
	// it may always be repeated. took is the processing time, at least 0; 0 means unknown.
	// Divided by the usual time, which is computed like the usual cost, it becomes the
	// cost of the customer's documents that are submitted without one.
	//
	// It returns what has ended: the zero Ended if the document was not pending, or if the
	// reply was lost and the Done was resent.
	Done(ctx context.Context, customer, document string, took time.Duration) (Ended, error)

	// DoneN ends many documents of one customer in one round trip or a few; took is the time
	// for all of them together. It returns one Ended per document. If some fail, the error is
	// a *BatchError, and the others have ended.
	DoneN(ctx context.Context, customer string, documents []string, took time.Duration) ([]Ended, error)

	// Peek returns what is known about a customer, and writes nothing. Its State is by load
	// if anything was submitted recently or is pending, else by count.
	Peek(ctx context.Context, customer string) (State, error)

	// Reset forgets everything known about the customer: the next document counts as the
	// first. It also removes corrupt values; see ErrCorrupt.
	Reset(ctx context.Context, customer string) error

	// PolicyOf returns the policy that decides for a customer, with every field
	// filled in.
	PolicyOf(customer string) Policy

	// Last returns the last level that any customer can get. Pass it to the functions of
	// package queue.
	Last() Level
}

// As finds the first store of type T in a chain of wrappers, from the outside in. T is an
// interface, or a type such as *RedisStore.
//
//	redisStore, ok := priority.As[*priority.RedisStore](store)
//
// A wrapper has a method Unwrap() Store, as errors have. As gives up after a hundred stores.
func As[T any](store Store) (found T, ok bool) {
	for n := 0; n < 100 && !typednil.Is(store); n++ {
		if found, ok = store.(T); ok {
			return found, true
		}
		wrapper, wraps := store.(interface{ Unwrap() Store })
		if !wraps {
			break
		}
		store = wrapper.Unwrap()
	}
	return found, false
}

var (
	// ErrInvalid: the call or an option was wrong; the message names what. Nothing was sent
	// and nothing was counted.
	ErrInvalid = check.ErrInvalid

	// ErrNotCounted: the document was definitely not counted, because Redis
	// refused the command or never got it. The caller may try again.
	ErrNotCounted = errors.New("priority: not counted")

	// ErrOutcomeUnknown: the command was sent and no answer came, so the document may have
	// been counted. The caller goes on with a level of its choice. A Next must not be
	// repeated, because it could count twice; a Submit and a Done may be.
	ErrOutcomeUnknown = errors.New("priority: outcome unknown")

	// ErrCorrupt: the key named in the message holds something other than a count or
	// pending documents. It was left as it is; Reset removes it.
	ErrCorrupt = errors.New("priority: corrupt")
)

// BatchError is the error of a NextEach, SubmitN, DoneN or [RedisStore.PeekEach] in which
// some entries failed.
type BatchError struct {
	// Errs has one error per entry, in the order of the call; nil means success.
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

// Ended is a document that was pending until its Done.
type Ended struct {
	Latency time.Duration // from when it was due until Done, in whole milliseconds
	Level   Level         // as returned by Submit, with any override applied; 0: it was not pending
}
