package script

import (
	"context"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/bubble"
)

// never is an answer that does not come.
type never struct{ future }

func (never) WaitContext(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// Who waits for a deferred answer waits until the deadline, or until the caller goes away.
func TestAWaitEndsInTime(t *testing.T) {
	const second = time.Second
	for _, test := range []struct {
		name                      string
		deadline, cancel, timeout time.Duration // 0: none
		want                      time.Duration
	}{
		{"timeout alone", 0, 0, second, second},
		{"caller first", second / 10, 0, second, second / 10},
		{"caller alone", second / 10, 0, -1, second / 10},
		{"canceled first", 0, second / 10, second, second / 10},
		{"canceled without a deadline", 0, second / 10, -1, second / 10},
		{"canceled in the rest", 0, 990 * time.Millisecond, second, 990 * time.Millisecond},
		{"canceled too late", 0, 2 * second, second, second},
	} {
		bubble.Test(t, func(t *testing.T) {
			begun := time.Now()
			var ctx context.Context = silent{}
			if test.deadline != 0 {
				ctx = silent{begun.Add(test.deadline)}
			}
			if test.cancel != 0 {
				canceled, cancel := context.WithCancel(ctx)
				ctx = canceled
				defer time.AfterFunc(test.cancel, cancel).Stop()
				defer cancel()
			}
			d := Begin(ctx, test.timeout)
			defer d.End()
			answered := new(single).await(&d, never{})
			if got := time.Since(begun); answered || got != test.want || d.Err() == nil {
				t.Errorf("%s: answered %t, over after %v with %v, want %v", test.name, answered, got, d.Err(), test.want)
			}
		})
	}
}
