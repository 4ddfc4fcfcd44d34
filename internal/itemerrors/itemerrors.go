// Package itemerrors reads the errors of calls with many items.
package itemerrors

import (
	"errors"

	"github.com/docpriority/priority"
)

// Of returns the errors of the n items of a call that returned err: the Errs of a
// *priority.BatchError, or err for each.
func Of(err error, n int) []error {
	var batch *priority.BatchError
	if errors.As(err, &batch) && len(batch.Errs) == n {
		return batch.Errs
	}
	errs := make([]error, n)
	for i := range errs {
		errs[i] = err
	}
	return errs
}
