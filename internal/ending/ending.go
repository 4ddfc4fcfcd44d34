// Package ending calls Done for the modules of queues.
package ending

import (
	"context"
	"log/slog"
	"time"

	"github.com/docpriority/priority"
)

// Context returns a context for a Done, which follows even if ctx has ended. A store that
// hangs, and has no timeout of its own, must hold no worker.
func Context(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
}

// Done calls Done, and logs an error.
func Done(ctx context.Context, store priority.Store, customer, document string, took time.Duration) error {
	ctx, cancel := Context(ctx)
	defer cancel()
	_, err := store.Done(ctx, customer, document, took)
	if err != nil {
		slog.WarnContext(ctx, "priority: a document counts as pending until its lease ends",
			"customer", customer, "document", document, "error", err)
	}
	return err
}

// Settle calls settle every ten seconds until the context ends, with the time since which it
// has not seen what ended, at first so long ago.
func Settle(ctx context.Context, ago time.Duration, settle func(since time.Time) error) {
	since := time.Now().Add(-ago)
	ticker := time.NewTicker(10 * time.Second)
	defer ticker.Stop()
	for {
		now := time.Now()
		if err := settle(since); err == nil {
			since = now.Add(-time.Minute) // clocks differ; Done may be called twice
		} else if ctx.Err() == nil {
			slog.WarnContext(ctx, "priority: given-up documents may count as pending", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
