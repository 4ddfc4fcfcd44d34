package priority

import (
	"context"
	"fmt"
	"time"
)

// Level is a document's processing priority: [Highest] (1) is processed first,
// the policy's [Policy.Lowest] (9 by default) last.
type Level int

// Highest is the level that is processed first.
const Highest Level = 1

// The largest inputs a [Store] takes.
const (
	// MaxCustomerBytes is the longest customer, in bytes.
	MaxCustomerBytes = 512
	// MaxDocuments is the most documents that one call counts.
	MaxDocuments = 1_000_000
)

// Decision says with which priority a document is to be processed, and why.
type Decision struct {
	// Level is the document's priority, from Highest to the policy's Lowest.
	Level Level

	// Count is the customer's count after this document: 0 after a reset, then
	// -1, -2 and so on. It goes down as load goes up.
	Count int64

	// Pending is how many documents of the customer are submitted and not done,
	// this one included. Only a tracker knows it; a Store leaves it 0.
	Pending int64

	// ResetIn is the time until the count starts afresh if nothing more comes.
	// It is 0 where there is no count.
	ResetIn time.Duration

	// Degraded reports that the fleet's count could not be reached and a
	// fallback answered with a count of its own.
	Degraded bool

	// Estimated reports that Count was answered from memory ahead of the
	// fleet's count. Level is exact all the same.
	Estimated bool
}

// Store counts documents and decides their levels. All implementations are
// safe for concurrent use.
//
// A customer is any 1 to [MaxCustomerBytes] bytes. A call that returns no error
// has counted its documents exactly once; one that returns an error has counted
// them at most once, and the error says which with [errors.Is]:
//
//   - [ErrInvalid]: the call was wrong; nothing was counted. Fix the call.
//   - [ErrNotCounted]: nothing was counted. The call may be made again.
//   - [ErrOutcomeUnknown]: it may have been counted. Go on with a default
//     level; do not repeat the call blindly.
//   - [ErrCorruptCount]: the key named in the message holds something else
//     than a count and was left as it is.
type Store interface {
	// Next counts one document of the customer and decides its level.
	Next(ctx context.Context, customer string) (Decision, error)

	// NextN counts n documents of one customer at once: the same decisions as n
	// calls of Next with nothing in between, in one round trip. n is 0 to
	// MaxDocuments; 0 returns nothing and counts nothing.
	NextN(ctx context.Context, customer string, n int) ([]Decision, error)

	// NextEach counts one document for each entry of customers, in order; a
	// customer may be named more than once. It returns one decision an entry.
	// It is not atomic across customers: where some entries fail, the error is a
	// *BatchError that tells which, and the decisions of the others stand.
	NextEach(ctx context.Context, customers []string) ([]Decision, error)

	// Peek returns the customer's last decision, or the one of count 0 where
	// there is no count. It counts and changes nothing.
	Peek(ctx context.Context, customer string) (Decision, error)

	// Reset forgets the customer's count: the next document is counted as the
	// first. It also removes a value that is no count.
	Reset(ctx context.Context, customer string) error
}

func checkCustomer(customer string) error {
	switch n := len(customer); {
	case n == 0:
		return fmt.Errorf("%w: it is empty", ErrInvalidCustomer)
	case n > MaxCustomerBytes:
		return fmt.Errorf("%w: %s has %d bytes, more than %d", ErrInvalidCustomer, quote(customer), n, MaxCustomerBytes)
	}
	return nil
}

func checkCustomers(customers []string) error {
	if n := len(customers); n > MaxDocuments {
		return fmt.Errorf("%w: %d customers in one call, more than %d", ErrInvalidCount, n, MaxDocuments)
	}
	for i, customer := range customers {
		if err := checkCustomer(customer); err != nil {
			return fmt.Errorf("%w (customers[%d])", err, i)
		}
	}
	return nil
}

func checkDocuments(customer string, n int) error {
	if err := checkCustomer(customer); err != nil {
		return err
	}
	if n < 0 || n > MaxDocuments {
		return fmt.Errorf("%w: %d is not between 0 and %d", ErrInvalidCount, n, MaxDocuments)
	}
	return nil
}
