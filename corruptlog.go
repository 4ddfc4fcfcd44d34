package priority

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// corruptLogInterval is how long a customer's corrupt count is not logged again:
	// it stays corrupt until somebody looks, and a busy customer meets it often.
	corruptLogInterval = time.Minute

	// maxCorruptLogged bounds the customers that are remembered as logged.
	maxCorruptLogged = 1000
)

// LogCorrupt returns an [Observer] that logs an error when a customer's key holds
// something else than a count ([ErrCorruptCount]), once a minute for each customer.
// The attributes are "operation", "customer" and "error", whose message names the
// key. It belongs around the store that reads the keys, inside a [Fallback].
// A nil logger gives an observer that is nil.
func LogCorrupt(logger *slog.Logger) Observer {
	if logger == nil {
		return nil
	}
	logged, _ := lru.New[string, time.Time](maxCorruptLogged) // it fails for a size below 1 only
	var mu sync.Mutex
	due := func(customer string, now time.Time) bool {
		mu.Lock()
		defer mu.Unlock()
		if last, ok := logged.Get(customer); ok && now.Sub(last) < corruptLogInterval {
			return false
		}
		logged.Add(customer, now)
		return true
	}
	return func(ctx context.Context, call Call) {
		if !errors.Is(call.Err, ErrCorruptCount) {
			return
		}
		now := call.Start.Add(call.Duration)
		for i, err := range eachError(call.Err, len(call.Customers)) {
			if customer := call.Customers[i]; errors.Is(err, ErrCorruptCount) && due(customer, now) {
				logger.ErrorContext(ctx, "priority: a key holds no count",
					"operation", call.Operation, "customer", customer, "error", err)
			}
		}
	}
}
