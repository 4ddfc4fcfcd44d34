package script

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/testing/bubble"
)

// A first call that hangs holds up no other one. The laws have how many calls are in flight.
func TestLimit_FirstCallHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := &server{}
		s.answers = []answer{func(cmd *command) error {
			s.written(cmd)
			if cmd.Args()[3] == "hangs" {
				time.Sleep(time.Minute)
			}
			cmd.integers.SetVal([]int64{1, 0})
			return nil
		}}
		runner := NewRunner(s.client(t))
		go runner.Run(begin(t, time.Second), &Call{Script: next, Key: "hangs", Integers: 2})
		synctest.Wait()
		if _, failure := runner.Run(begin(t, time.Second), &Call{Script: next, Key: "k", Integers: 2}); failure != nil {
			t.Errorf("%+v", failure)
		}
		time.Sleep(time.Hour) // until the first call has ended
	})
}
