package census

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The first page is due at once, and each other one when the page before it has taken
// its time.
func TestPagesKeepThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Walk{options: Options{Pace: 1000}, page: 500}
		began := time.Now()
		for i := range 4 {
			if err := w.wait(t.Context()); err != nil || time.Since(began) != time.Duration(i)*time.Second/2 {
				t.Errorf("page %d: %v after %v", i, err, time.Since(began))
			}
		}
		time.Sleep(time.Minute) // saves nothing up
		began = time.Now()
		for range 2 {
			_ = w.wait(t.Context())
		}
		if took := time.Since(began); took != time.Second/2 {
			t.Errorf("two pages after a pause took %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := w.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}
