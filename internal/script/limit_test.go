package script

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/testing/bubble"
)

// hanging is a server that hangs for a minute for some keys, and a Runner on it.
func hanging(t *testing.T, hangs func(key string) bool) *Runner {
	s := &server{}
	s.answers = []answer{func(cmd *command) error {
		s.written(cmd)
		if hangs(cmd.Args()[3].(string)) {
			time.Sleep(time.Minute)
		}
		cmd.integers.SetVal([]int64{1, 0})
		return nil
	}}
	runner := NewRunner(s.client(t))
	known, _ := runner.limit.known(next)
	close(known)
	return runner
}

// A first call that hangs holds up no other one.
func TestLimit_FirstCallHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		runner := hanging(t, func(key string) bool { return key == "hangs" })
		runner.limit.scripts = nil // none was called yet
		go runner.Run(begin(t, time.Second), &Call{Script: next, Key: "hangs", Integers: 2})
		synctest.Wait()
		if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: "k", Integers: 2}); failure != nil {
			t.Errorf("%+v", failure)
		}
		time.Sleep(time.Hour) // until the first call has ended
	})
}

// As many calls are in flight as the client has connections, and as many pipelines as the
// constant says, whether anyone waits for them or not; others get their turn, or the end of
// their time.
func TestLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		runner := hanging(t, func(string) bool { return true })
		const callers = 3 * connections
		var all sync.WaitGroup
		var mu sync.Mutex
		outcomes := make(map[Outcome]int)
		calls := func(timeout time.Duration, run func(d *Deadline, call Call) *Failure) {
			clear(outcomes)
			for i := range callers {
				all.Go(func() {
					failure := run(begin(t, timeout), Call{Script: next, Key: fmt.Sprintf("p:{%d}:count", i), Integers: 2})
					mu.Lock()
					defer mu.Unlock()
					if failure == nil {
						failure = &Failure{Outcome: -1}
					} else if tooMany := strings.Contains(failure.Err.Error(), "too many"); tooMany != (failure.Outcome == NotCounted) {
						t.Errorf("%+v", failure)
					}
					outcomes[failure.Outcome]++
				})
			}
			all.Wait()
		}
		for _, test := range []struct {
			most int
			run  func(d *Deadline, call Call) *Failure
		}{
			{connections, func(d *Deadline, call Call) *Failure {
				_, failure := runner.Run(d, &call)
				return failure
			}},
			{MaxPipelines, func(d *Deadline, call Call) *Failure {
				_, failures := runner.RunEach(d, []Call{call})
				return failures[0]
			}},
		} {
			for range 2 { // the second time, none gets a place
				calls(time.Second, test.run)
				if outcomes[Unknown] != test.most || outcomes[NotCounted] != callers-test.most {
					t.Errorf("%v, want %d in flight", outcomes, test.most)
				}
				test.most = 0
			}
			time.Sleep(time.Hour) // until all have ended
			if calls(time.Hour*24, test.run); outcomes[-1] != callers {
				t.Errorf("with patience: %v", outcomes)
			}
		}
	})
}
