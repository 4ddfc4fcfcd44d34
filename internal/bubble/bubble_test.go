package bubble

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestTimersThatEndSideBySide(t *testing.T) {
	for range 20 {
		Test(t, func(t *testing.T) {
			var all sync.WaitGroup
			for range 16 {
				all.Go(func() {
					for i := range 100 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%3)*time.Millisecond)
						select {
						case <-time.After(time.Duration(i%2) * time.Millisecond):
						case <-ctx.Done():
						}
						cancel()
					}
				})
			}
			all.Wait()
		})
	}
}
