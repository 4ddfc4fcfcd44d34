package priority

import (
	"context"
	"fmt"
	"time"
)

// MaxDocumentBytes is the longest document id that a [Tracker] takes, in bytes.
const MaxDocumentBytes = 512

// defaultLease is about 90 times the 2 s that a document takes to serve in the
// simulations that found it: see docs/fairness.md.
const defaultLease = 180 * time.Second

// Tracker decides levels from how much a customer has sent lately, as a [Store]
// does, and from how many of the customer's documents are pending now: submitted
// and not done. It protects steady customers too, who never pause for a reset.
// All implementations are safe for concurrent use.
//
// The level is the mean, rounded up, of the rule's level and of the level of 1
// minus the pending documents. A document is known by its id, any 1 to
// [MaxDocumentBytes] bytes, among its customer's documents. A document that is
// not done within the lease (Lease in the options) is forgotten.
//
// Errors are as of a [Store]: a call that returns ErrNotCounted changed nothing.
type Tracker interface {
	// Submit counts one document by the rule, and the document is pending from
	// now. A Submit of a pending document, as of one that the queue delivers
	// again, counts nothing and begins its lease anew.
	Submit(ctx context.Context, customer, document string) (Decision, error)

	// SubmitN submits the documents of one customer, in order, in one round trip.
	// It returns one decision a document. Where some fail, the error is a
	// *BatchError that tells which, and the decisions of the others stand. There
	// are at most MaxDocuments of them.
	SubmitN(ctx context.Context, customer string, documents []string) ([]Decision, error)

	// Done says that a document is not pending any more. For a document that is
	// unknown, done already or forgotten it does nothing.
	Done(ctx context.Context, customer, document string) error

	// DoneN says it of many documents of one customer in one round trip. Where
	// some fail, the error is a *BatchError that tells which.
	DoneN(ctx context.Context, customer string, documents []string) error

	// Peek returns the decision that the customer's last document has now: that
	// of the count and of the documents pending. It changes nothing.
	Peek(ctx context.Context, customer string) (Decision, error)

	// Reset forgets the customer's count and pending documents. It also removes
	// values that are neither.
	Reset(ctx context.Context, customer string) error
}

// tracked returns the decision for a customer with some documents pending, from
// the rule's own.
func tracked(byRule Decision, policy Policy, pending int64) Decision {
	byRule.Pending = pending
	byRule.Level = (byRule.Level + policy.Level(1-pending) + 1) / 2
	return byRule
}

func leaseOf(option time.Duration) (time.Duration, error) {
	switch {
	case option == 0:
		return defaultLease, nil
	case option < time.Millisecond || option%time.Millisecond != 0:
		return 0, fmt.Errorf("%w: Lease %v is not a whole number of milliseconds from 1 ms up", ErrInvalidOption, option)
	}
	return option, nil
}

func checkSubmitted(customer string, documents ...string) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	if n := len(documents); n > MaxDocuments {
		return fmt.Errorf("%w: %d documents in one call, more than %d", ErrInvalidCount, n, MaxDocuments)
	}
	for i, document := range documents {
		if n := len(document); n == 0 || n > MaxDocumentBytes {
			return fmt.Errorf("%w: %s (documents[%d]) has %d bytes, not 1 to %d",
				ErrInvalidDocument, quote(document), i, n, MaxDocumentBytes)
		}
	}
	return nil
}
