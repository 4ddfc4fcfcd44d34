package script

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/bubble"
)

// silent is a context that never says that it has ended.
type silent struct{ deadline time.Time }

func (s silent) Deadline() (time.Time, bool) { return s.deadline, !s.deadline.IsZero() }
func (silent) Done() <-chan struct{}         { return nil }
func (silent) Err() error                    { return nil }
func (silent) Value(any) any                 { return nil }

// A call ends by the store's timeout or by the caller's deadline, whichever is
// first, and no later than either; its tries end a little earlier.
func TestDeadline(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name          string
		caller        time.Duration // 0: none
		timeout       time.Duration
		tries, atMost time.Duration // 0: no end
	}{
		{"timeout alone", 0, second, 975 * time.Millisecond, second},
		{"short timeout", 0, 10 * time.Millisecond, 9 * time.Millisecond, 10 * time.Millisecond},
		{"caller first", 100 * time.Millisecond, second, 90 * time.Millisecond, 100 * time.Millisecond},
		{"timeout first", time.Minute, second, 975 * time.Millisecond, second},
		{"caller alone", 100 * time.Millisecond, -1, 90 * time.Millisecond, 100 * time.Millisecond},
		{"over before it begins", -second, second, 0, 0},
		{"neither", 0, -1, 0, 0},
	} {
		bubble.Test(t, func(t *testing.T) {
			begun := time.Now()
			background := silent{}
			if test.caller != 0 {
				background.deadline = begun.Add(test.caller)
			}
			d := Begin(background, test.timeout)
			defer d.End()
			if test.name == "neither" {
				if !d.endless() {
					t.Errorf("%s: it is bounded", test.name)
				}
				return
			}
			if d.endless() || (d.Err() == nil) != (test.tries > 0) {
				t.Errorf("%s: at first, it is over: %v", test.name, d.Err())
			}
			<-d.context.Done()
			if got := time.Since(begun); got != test.tries || !errors.Is(d.Err(), context.DeadlineExceeded) {
				t.Errorf("%s: the tries end after %v with %v, want %v", test.name, got, d.Err(), test.tries)
			}
			rest, cancel := d.rest()
			defer cancel()
			<-rest.Done()
			if got := time.Since(begun); got != test.atMost {
				t.Errorf("%s: it ends after %v, want %v", test.name, got, test.atMost)
			}
		})
	}
}
