package script

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/testing/bubble"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// A node's customers are its slots', so slots must be those of Redis.
func TestSlot(t *testing.T) {
	if got := slot("p:{123456789}:count"); got != 12739 { // the check value of CRC-16/XMODEM
		t.Errorf("slot %d", got)
	}
	server := redistest.Start(t, "--cluster-enabled", "yes").Client()
	for range 200 {
		customer := make([]byte, 1+rand.IntN(40))
		for i := range customer {
			customer[i] = byte(rand.IntN(256))
		}
		key := "priority:{" + strings.ReplaceAll(string(customer), "}", "%7D") + "}:count"
		if got, want := slot(key), server.ClusterKeySlot(t.Context(), key).Val(); int64(got) != want {
			t.Fatalf("%q: slot %d, and Redis says %d", key, got, want)
		}
	}
}

// hanging is a server that hangs for a minute for some keys, and a Runner on it.
func hanging(t *testing.T, hangs func(key string) bool) *Runner {
	s := &server{}
	s.answers = []answer{func(cmd *command) error {
		s.written(cmd)
		if hangs(cmd.Args()[3].(string)) {
			time.Sleep(time.Minute)
		}
		cmd.SetVal([]int64{1, 0})
		return nil
	}}
	return NewRunner(s.client(t))
}

// As many calls are in flight as the constants say, whether anyone waits for them or not;
// others get their turn, or the end of their time.
func TestLimit(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		runner := hanging(t, func(string) bool { return true })
		const callers = 3 * MaxCalls
		var all sync.WaitGroup
		var mu sync.Mutex
		outcomes := make(map[Outcome]int)
		calls := func(timeout time.Duration, run func(d *Deadline, call Call) *Failure) {
			clear(outcomes)
			for i := range callers {
				all.Go(func() {
					failure := run(begin(t, timeout), Call{Script: next, Key: fmt.Sprintf("p:{%d}:count", i)})
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
			{MaxCalls, func(d *Deadline, call Call) *Failure {
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

// A node that hangs, or a customer who floods, takes the places of its range. Calls in others
// are answered at once.
func TestLimit_OtherRanges(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		rangeOf := func(key string) int { return slot(key) / (slots / 64) }
		runner := hanging(t, func(key string) bool { return rangeOf(key) == 3 })
		var all sync.WaitGroup
		others := 0
		for i := range 4000 {
			if key := fmt.Sprintf("p:{%d}:count", i); rangeOf(key) == 3 {
				for range 100 {
					all.Go(func() { _, _ = runner.Run(begin(t, time.Second), &Call{Script: next, Key: key}) })
				}
			}
		}
		synctest.Wait()
		begun := time.Now()
		for i := range 4000 {
			if key := fmt.Sprintf("p:{%d}:count", i); rangeOf(key) != 3 {
				others++
				if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: key}); failure != nil || time.Since(begun) > 0 {
					t.Fatalf("%s: %+v after %v", key, failure, time.Since(begun))
				}
			}
		}
		all.Wait()
		if others < 3000 {
			t.Errorf("only %d others", others)
		}
		time.Sleep(time.Hour)
	})
}
