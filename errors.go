package priority

import (
	"errors"
	"fmt"
	"strconv"
)

var (
	// ErrInvalid is what every error of a wrong call or option wraps. Nothing
	// was sent and nothing was counted.
	ErrInvalid = errors.New("priority: invalid")

	// ErrInvalidCustomer: a customer is 1 to MaxCustomerBytes bytes.
	ErrInvalidCustomer = fmt.Errorf("%w customer", ErrInvalid)

	// ErrInvalidDocument: a document's id is 1 to MaxDocumentBytes bytes.
	ErrInvalidDocument = fmt.Errorf("%w document", ErrInvalid)

	// ErrInvalidCount: the number of documents in one call is 0 to MaxDocuments.
	ErrInvalidCount = fmt.Errorf("%w number of documents", ErrInvalid)

	// ErrInvalidPolicy: the message names the field.
	ErrInvalidPolicy = fmt.Errorf("%w policy", ErrInvalid)

	// ErrInvalidOption: a constructor was given an option that it cannot take.
	ErrInvalidOption = fmt.Errorf("%w option", ErrInvalid)

	// ErrNotCounted: Redis surely did not count the document, because it refused
	// the command or never got it. The caller may try again.
	ErrNotCounted = errors.New("priority: not counted")

	// ErrOutcomeUnknown: the command was sent and no answer came, so the document
	// may have been counted. The caller goes on with a default level; to try
	// again would risk counting twice.
	ErrOutcomeUnknown = errors.New("priority: outcome unknown")

	// ErrCorruptCount: the key named in the message holds something else than a
	// count. It was left as it is; Reset removes it.
	ErrCorruptCount = errors.New("priority: corrupt count")
)

// BatchError tells which entries of a NextEach, SubmitN or DoneN failed.
type BatchError struct {
	// Errs has one error an entry, in the order of the call: nil where the
	// document was counted.
	Errs []error
}

// Error counts the failures and shows the first.
func (e *BatchError) Error() string {
	failed := e.Unwrap()
	if len(failed) == 0 {
		return "priority: no document failed"
	}
	return fmt.Sprintf("priority: %d of %d documents failed, the first with: %v", len(failed), len(e.Errs), failed[0])
}

// Unwrap returns the errors of the failed entries.
func (e *BatchError) Unwrap() []error {
	var failed []error
	for _, err := range e.Errs {
		if err != nil {
			failed = append(failed, err)
		}
	}
	return failed
}

// eachError returns the errors of the n entries of a NextEach that returned err.
func eachError(err error, n int) []error {
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

// quote makes bytes from outside fit for one line of a log: escaped, and cut
// when they are long.
func quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
