package script

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

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

// queue stands in for a deferred *redis.AutoPipeliner.
type queue struct {
	Client
	server  *server
	hangs   chan struct{} // nil: it does not
	refuses error         // in place of an answer
	queued  int
	config  struct{ FullDuplex bool }
}

func (*queue) IsBlocking() bool                    { return false }
func (q *queue) Config() struct{ FullDuplex bool } { return q.config }

func (q *queue) Submit(_ context.Context, cmd redis.Cmder) answered {
	q.queued++
	a := answered{cmd.(*command), make(chan struct{})}
	hangs := q.hangs
	if q.refuses == nil {
		q.server.written(a.cmd)
	}
	go func() {
		if hangs != nil {
			<-hangs
		}
		a.cmd.SetVal([]int64{1, 0})
		a.cmd.SetErr(q.refuses)
		close(a.done)
	}()
	return a
}

// answered stands in for a redis.AutoFuture.
type answered struct {
	cmd  *command
	done chan struct{}
}

func (a answered) Wait() error {
	<-a.done
	return a.cmd.Err()
}

func (a answered) WaitContext(ctx context.Context) error {
	select {
	case <-a.done:
		return a.cmd.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newQueue returns one, and a Runner on it that was answered before.
func newQueue(t *testing.T) (*queue, *Runner) {
	s := &server{}
	s.answers = []answer{s.replies(1, 0)}
	q := &queue{server: s}
	q.Client = s.client(t)
	r := NewRunner(q)
	r.answered.Store(true)
	return q, r
}

// A call that is given up keeps its place until its answer comes.
func TestAGivenUpAnswerKeepsItsPlace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q, r := newQueue(t)
		q.hangs = make(chan struct{})
		call := &Call{Script: next, Key: "k"}
		for range callsEach + callsShared {
			begun := time.Now()
			_, failure := r.Run(begin(t, time.Second), call)
			if failure == nil || failure.Outcome != Unknown || !errors.Is(failure.Err, context.DeadlineExceeded) || time.Since(begun) != time.Second {
				t.Fatalf("%+v after %v", failure, time.Since(begun))
			}
		}
		_, failure := r.Run(begin(t, time.Second), call)
		if failure == nil || failure.Outcome != NotCounted || !strings.Contains(failure.Err.Error(), "under way") {
			t.Errorf("one more: %+v", failure)
		}
		close(q.hangs)
		q.hangs = nil
		synctest.Wait()
		if _, failure := r.Run(begin(t, time.Second), call); failure != nil {
			t.Errorf("when the answers have come: %+v", failure)
		}
	})
}

// An answer within the rest of the time counts, and a command's own error is not taken
// for the end of the time.
func TestADeferredAnswerIsTakenAsItIs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		q, r := newQueue(t)
		q.hangs = make(chan struct{})
		time.AfterFunc(990*time.Millisecond, func() { close(q.hangs) })
		reply, failure := r.Run(begin(t, time.Second), &Call{Script: next, Key: "k"})
		if failure != nil || len(reply) != 2 {
			t.Errorf("in the rest of the time: %v, %+v", reply, failure)
		}
		q.hangs, q.refuses = nil, context.DeadlineExceeded
		begun := time.Now()
		_, failure = r.Run(begin(t, time.Second), &Call{Script: next, Key: "k"})
		if failure == nil || failure.Outcome != NotCounted || time.Since(begun) > 0 || strings.Contains(failure.Err.Error(), "sent") {
			t.Errorf("refused: %+v after %v", failure, time.Since(begun))
		}
	})
}

// Where queueing may take time, a goroutine does it.
func TestOnlyWhatQueuesAtOnceIsQueued(t *testing.T) {
	for name, change := range map[string]func(q *queue, r *Runner){
		"before the first answer": func(_ *queue, r *Runner) { r.answered.Store(false) },
		"in full duplex": func(q *queue, r *Runner) {
			q.config.FullDuplex = true
			r.deferred = deferredOf(q)
		},
	} {
		q, r := newQueue(t)
		change(q, r)
		if _, failure := r.Run(begin(t, time.Minute), &Call{Script: next, Key: "k"}); failure != nil || q.queued != 0 {
			t.Errorf("%s: %d were queued, %+v", name, q.queued, failure)
		}
	}
	q, r := newQueue(t)
	if _, failure := r.Run(begin(t, time.Minute), &Call{Script: next, Key: "k"}); failure != nil || q.queued != 1 {
		t.Errorf("afterwards %d were queued, %+v", q.queued, failure)
	}
	if deferredOf(pipeliner{}) != nil {
		t.Error("a blocking AutoPipeliner queues")
	}
}
