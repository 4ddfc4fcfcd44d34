package program

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

// Insist tries until it succeeds, or the context ends, or the error is final. A try has
// five seconds.
func Insist(ctx context.Context, log *slog.Logger, try func(context.Context) error, final func(error) bool) error {
	for {
		limited, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := try(limited)
		cancel()
		if err == nil || final(err) {
			return err
		}
		if ctx.Err() == nil {
			log.Warn("trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, after: %w", context.Cause(ctx), err)
		case <-time.After(300 * time.Millisecond):
		}
	}
}
