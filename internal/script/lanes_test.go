package script

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
)

// The customers of one node are those of its slots, so a lane must count slots as
// Redis does.
func TestASlotIsThatOfRedis(t *testing.T) {
	for key, want := range map[string]int{
		"p:{123456789}:count": 12739, // the check value of CRC-16/XMODEM
		"p:{foo}:count":       12182,
		"p:{bar}:pending":     5061,
	} {
		if got := slot(key); got != want {
			t.Errorf("%q: slot %d, want %d", key, got, want)
		}
	}
	server := redistest.Start(t, "--cluster-enabled", "yes").Client()
	for range 1000 {
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

// keysOf returns a key of each lane.
func keysOf(l lanes) []string {
	keys := make([]string, len(l))
	for i, missing := 0, len(l); missing > 0; i++ {
		key := fmt.Sprintf("p:{%d}:count", i)
		if at := slot(key) * len(l) / slots; keys[at] == "" {
			keys[at] = key
			missing--
		}
	}
	return keys
}

// As many as the constants say are under way, and no more; who waits for a place
// gets one, or the end of the time.
func TestLanesBoundWhatIsUnderWay(t *testing.T) {
	if MaxCalls != 1024 || MaxPipelines != 32 {
		t.Errorf("%d and %d: the comments say 1024 and 32", MaxCalls, MaxPipelines)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	l := newLanes(callLanes, callsEach)
	under := 0
	for _, key := range keysOf(l) {
		for l.of(key).enter(over) {
			under++
		}
	}
	if under != MaxCalls {
		t.Errorf("%d are under way, want %d", under, MaxCalls)
	}
	bubble.Test(t, func(t *testing.T) {
		lane := newLanes(1, 1)[0]
		lane.enter(t.Context())
		entered := make(chan bool)
		go func() { entered <- lane.enter(t.Context()) }()
		synctest.Wait()
		select {
		case <-entered:
			t.Error("two are in a lane for one")
		default:
		}
		lane.leave()
		if !<-entered {
			t.Error("the place that got free was not given away")
		}
	})
}

// A node that hangs fills its own lanes. Calls for others are not refused, nor do
// they wait.
func TestAHangingLaneLeavesOthersFree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &server{}
		runner := NewRunner(s.client(t))
		keys := keysOf(runner.places.calls)
		hanging, healthy := keys[3], keys[4]
		s.answers = []answer{func(cmd *command) error {
			s.written(cmd)
			if cmd.Args()[3] == hanging {
				time.Sleep(time.Minute)
			}
			cmd.SetVal([]int64{1, 0})
			return nil
		}}
		const callers = 100
		failures := make(chan *Failure, callers)
		for range callers {
			go func() {
				_, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: hanging})
				failures <- failure
			}()
		}
		synctest.Wait()
		begun := time.Now()
		if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: healthy}); failure != nil || time.Since(begun) > 0 {
			t.Errorf("a healthy node's customer: %+v after %v", failure, time.Since(begun))
		}
		outcomes := make(map[Outcome]int)
		for range callers {
			failure := <-failures
			outcomes[failure.Outcome]++
			if failure.Outcome == NotCounted && !strings.Contains(failure.Err.Error(), "under way") {
				t.Errorf("refused with %q", failure.Err)
			}
		}
		if outcomes[Unknown] != callsEach || outcomes[NotCounted] != callers-callsEach {
			t.Errorf("%v", outcomes)
		}
		time.Sleep(time.Minute) // the node is back
		synctest.Wait()
		if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: healthy}); failure != nil {
			t.Errorf("afterwards: %+v", failure)
		}
	})
}
