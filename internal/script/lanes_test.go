package script

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/bubble"
	"github.com/docpriority/priority/internal/redistest"
)

// A node's customers are its slots', so a lane must count slots as
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
	l := newLanes(callLanes, callsEach, callsShared)
	under := 0
	for i, key := range keysOf(l) {
		first := under
		for l.of(key).try() != nil {
			under++
		}
		want := callsEach
		if i%neighbors == 0 { // the first of them to come
			want += callsShared
		}
		if took := under - first; took != want {
			t.Errorf("lane %d takes %d, want %d", i, took, want)
		}
	}
	if under != MaxCalls {
		t.Errorf("%d are under way, want %d", under, MaxCalls)
	}
	over := make(chan struct{})
	close(over)
	if l[0].enter(over) != nil {
		t.Error("one more has a place")
	}
	for _, shared := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			lane := newLanes(1, 1, 1)[0]
			own, common := lane.try(), lane.try()
			entered := make(chan place)
			go func() { entered <- lane.enter(nil) }()
			synctest.Wait()
			select {
			case <-entered:
				t.Error("three are in a lane for two")
			default:
			}
			left := own
			if shared {
				left = common
			}
			left.leave()
			if <-entered != left {
				t.Error("the place that got free was not given away")
			}
		})
	}
}

// A quiet customer in the lane of one who floods waits for one place, not for all of the
// flood; and nothing is kept of who waited.
func TestAQuietCustomerDoesNotWaitBehindAFlood(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l := newLanes(1, 2, 1)
		flood, quiet := l.of("p:{flood}:count"), l.of("p:{quiet}:count")
		for range 3 {
			flood.try()
		}
		entered := make(chan string)
		over := make(chan struct{})
		wait := func(name string, l lane) {
			if l.enter(over) != nil {
				entered <- name
			} else {
				entered <- "over"
			}
		}
		const callers = 100
		for range callers {
			go wait("flood", flood)
		}
		synctest.Wait()
		go wait("quiet", quiet)
		synctest.Wait()
		first := []string{}
		for range 2 {
			flood.own.leave()
			first = append(first, <-entered)
		}
		if !slices.Contains(first, "quiet") {
			t.Errorf("of a hundred that came before and one that is quiet, %v entered first", first)
		}
		close(over)
		for range callers - 1 {
			if name := <-entered; name != "over" {
				t.Errorf("%s entered after the end of the time", name)
			}
		}
		if left := len(flood.waiting.lines); left != 0 {
			t.Errorf("%d customers seem to wait", left)
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
		hanging, healthy, neighbor := keys[3], keys[4], keys[2]
		s.answers = []answer{func(cmd *command) error {
			s.written(cmd)
			if cmd.Args()[3] == hanging {
				time.Sleep(time.Minute)
			}
			cmd.SetVal([]int64{1, 0})
			return nil
		}}
		const callers, taken = 100, callsEach + callsShared
		failures := make(chan *Failure, callers)
		for range callers {
			go func() {
				_, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: hanging})
				failures <- failure
			}()
		}
		synctest.Wait()
		begun := time.Now()
		for _, key := range []string{healthy, neighbor} {
			if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: key}); failure != nil || time.Since(begun) > 0 {
				t.Errorf("a healthy node's customer: %+v after %v", failure, time.Since(begun))
			}
		}
		outcomes := make(map[Outcome]int)
		for range callers {
			failure := <-failures
			outcomes[failure.Outcome]++
			if failure.Outcome == NotCounted && !strings.Contains(failure.Err.Error(), "under way") {
				t.Errorf("refused with %q", failure.Err)
			}
		}
		if outcomes[Unknown] != taken || outcomes[NotCounted] != callers-taken {
			t.Errorf("%v", outcomes)
		}
		time.Sleep(time.Minute) // the node is back
		synctest.Wait()
		if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: healthy}); failure != nil {
			t.Errorf("afterwards: %+v", failure)
		}
	})
}
