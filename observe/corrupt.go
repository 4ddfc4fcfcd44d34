package observe

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
)

// corruptLogInterval is the shortest time between two log entries: a key stays
// corrupt until somebody looks, and a busy customer hits it often.
const corruptLogInterval = time.Minute

// LogCorrupt returns a [Func] that logs an error when a customer's key holds
// something other than a count ([priority.ErrCorruptCount]), at most once a minute.
// The attributes are "operation" and "error", whose message names the key. It
// belongs around the store that reads the keys, inside a fallback. With a nil logger
// it is nil.
func LogCorrupt(logger *slog.Logger) Func {
	if logger == nil {
		return nil
	}
	isCorrupt := func(err error) bool { return errors.Is(err, priority.ErrCorruptCount) }
	var logged atomic.Int64 // when, in nanoseconds of Unix time; 0: never
	return func(ctx context.Context, call Call) {
		if !isCorrupt(call.Err) {
			return
		}
		err := call.Err
		if batch := (*priority.BatchError)(nil); errors.As(err, &batch) { // it names only the first error
			err = batch.Errs[slices.IndexFunc(batch.Errs, isCorrupt)]
		}
		now, last := call.Start.Add(call.Duration).UnixNano(), logged.Load()
		// A clock that goes back must not silence it for longer.
		isQuiet := now >= last && now-last < int64(corruptLogInterval)
		if !isQuiet && logged.CompareAndSwap(last, now) {
			logger.ErrorContext(ctx, "priority: a key holds no count", "operation", call.Operation, "error", err)
		}
	}
}
