package script

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority/internal/testing/bubble"
)

// begin begins a call of a test.
func begin(t *testing.T, timeout time.Duration) *Deadline {
	d := Begin(context.Background(), timeout)
	t.Cleanup(d.End)
	return &d
}

// What may have been run is run again only if that does no harm, and no later refusal undoes
// a lost answer.
func TestRun_LostAnswer(t *testing.T) {
	var file struct {
		Cases []struct {
			Name, Do, Class string
			Tries           []string
			Sent            int
		}
	}
	readVectors(t, "lost.json", &file)
	for _, c := range file.Cases {
		call := Call{Script: next, Key: "k", Integers: 2, Repeatable: c.Do == "submit" || c.Do == "done", ReadOnly: c.Do == "peek"}
		for name, run := range runs {
			bubble.Test(t, func(t *testing.T) {
				s := &server{}
				for _, try := range c.Tries {
					switch try {
					case "answered":
						s.answers = append(s.answers, s.replies(1, 0))
					case "lost":
						s.answers = append(s.answers, s.loses)
					default:
						s.answers = append(s.answers, s.refuses(try))
					}
				}
				failure := run(NewRunner(s.client(t)), begin(t, time.Second), call)
				if answered := failure == nil; answered != (c.Class == "answered") || !answered && failure.Outcome != outcomes[c.Class] {
					t.Errorf("%s, %s: %+v, want %s", c.Name, name, failure, c.Class)
				}
				loaded := func(line string) bool { return strings.HasPrefix(line, "script load ") }
				if s.read = slices.DeleteFunc(s.read, loaded); c.Sent > 0 && len(s.read) != c.Sent {
					t.Errorf("%s, %s: sent %d times, want %d", c.Name, name, len(s.read), c.Sent)
				}
			})
		}
	}
}

// runs make a call, each in a way of its own.
var runs = map[string]func(*Runner, *Deadline, Call) *Failure{
	"alone": func(r *Runner, d *Deadline, call Call) *Failure {
		_, failure := r.Run(d, &call)
		return failure
	},
	"in a pipeline": func(r *Runner, d *Deadline, call Call) *Failure {
		_, failures := r.RunEach(d, []Call{call})
		return failures[0]
	},
}

// A node that does not know the script is taught it; what is refused for a moment is
// tried again until the time is over, and without a deadline a few times.
func TestRun_RefusedForAMoment(t *testing.T) {
	text := "script load " + next.Text
	digest := "evalsha " + string(next.digest)
	loading := func(s *server) answer { return s.refuses("LOADING Redis is loading") }
	for _, test := range []struct {
		name    string
		answers func(s *server) []answer
		want    []string
	}{
		{"the script is not known where the slot moves", func(s *server) []answer {
			unknown := s.refuses("NOSCRIPT No matching script")
			return []answer{unknown, unknown, s.replies(1, 0)}
		}, []string{digest, text, digest, text, "eval " + next.Text}},
		{"the script is not known", func(s *server) []answer {
			return []answer{s.refuses("NOSCRIPT No matching script"), s.replies(1, 0)}
		}, []string{digest, text, digest}},
		{"loading", func(s *server) []answer { return []answer{loading(s), loading(s), s.replies(1, 0)} }, []string{digest, digest, digest}},
		{"no connection, and then loading", func(s *server) []answer {
			return []answer{s.unreachable, s.unreachable, loading(s), s.replies(1, 0)}
		}, []string{digest, digest}},
	} {
		for _, timeout := range []time.Duration{time.Minute, -1} {
			s := &server{}
			runner := NewRunner(s.client(t))
			for range 2 { // the server knew the script, and has forgotten it
				s.read, s.answers = nil, test.answers(s)
				if _, failure := runner.Run(begin(t, timeout), &Call{Script: next, Key: "k", Integers: 2}); failure != nil || !slices.Equal(s.read, test.want) {
					t.Errorf("%s: sent %q, %+v", test.name, s.read, failure)
				}
			}
			s.read, s.answers = nil, test.answers(s)
			_, failures := runner.RunEach(begin(t, timeout), []Call{{Script: next, Key: "k", Integers: 2}})
			if failures[0] != nil || !slices.Equal(s.read, test.want) {
				t.Errorf("%s, in a pipeline: sent %q, %+v", test.name, s.read, failures[0])
			}
		}
	}
	for name, always := range map[string]func(s *server) answer{
		"loading":                   loading,
		"the script is never known": func(s *server) answer { return s.refuses("NOSCRIPT No matching script") },
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &server{}
			s.answers = []answer{always(s)}
			runner := NewRunner(s.client(t))
			_, failure := runner.Run(begin(t, -1), &Call{Script: next, Key: "k", Integers: 2})
			s.read = slices.DeleteFunc(s.read, func(line string) bool { return line == text })
			if failure == nil || failure.Outcome != NotCounted || len(s.read) != maxTries {
				t.Errorf("%s, without a deadline: sent %d times, %+v", name, len(s.read), failure)
			}
			begun := time.Now()
			_, failure = runner.Run(begin(t, time.Second), &Call{Script: next, Key: "k", Integers: 2})
			if failure == nil || failure.Outcome != NotCounted || time.Since(begun) > time.Second {
				t.Errorf("%s, within a second: %+v after %v", name, failure, time.Since(begun))
			}
		})
	}
}

// Of a pipeline, only what failed is sent again.
func TestRunEach_SentAgain(t *testing.T) {
	const n = 200
	calls := make([]Call, n)
	for i := range calls {
		calls[i] = Call{Script: next, Key: fmt.Sprintf("p:{%d}:count", i), Integers: 2}
	}
	s := &server{}
	for i := range n {
		switch i % 4 {
		case 0:
			s.answers = append(s.answers, s.loses)
		case 1:
			s.answers = append(s.answers, s.refuses("OOM command not allowed"))
		case 2:
			s.answers = append(s.answers, s.refuses("LOADING Redis is loading"))
		case 3:
			s.answers = append(s.answers, s.replies(1, int64(i)))
		}
	}
	s.answers = append(s.answers, s.replies(1, -7))
	replies, failures := NewRunner(s.client(t)).RunEach(begin(t, time.Minute), calls)
	for i := range n {
		ok := false
		switch i % 4 {
		case 0:
			ok = failures[i] != nil && failures[i].Outcome == Unknown
		case 1:
			ok = failures[i] != nil && failures[i].Outcome == NotCounted
		case 2:
			ok = failures[i] == nil && slices.Equal(replies[i].Integers, []int64{1, -7})
		case 3:
			ok = failures[i] == nil && slices.Equal(replies[i].Integers, []int64{1, int64(i)})
		}
		if !ok {
			t.Errorf("call %d: %v, %+v", i, replies[i], failures[i])
		}
	}
	if want := n + n/4; len(s.read) != want {
		t.Errorf("sent %d commands, want %d", len(s.read), want)
	}

}

// forgetful is a server that runs the scripts that it knows.
func forgetful() *server {
	s := &server{}
	s.answers = []answer{func(cmd *command) error {
		s.written(cmd)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, line := range s.read {
			if text, ok := strings.CutPrefix(line, "script load "); ok && s.refused == nil && bytes.Equal(New(text).digest, cmd.body.bytes) {
				cmd.integers.SetVal([]int64{1, 0})
				return nil
			}
		}
		return reply("NOSCRIPT No matching script")
	}}
	return s
}

// A hook that panics does so in its caller's goroutine.
func TestRun_HookPanics(t *testing.T) {
	s := &server{answers: []answer{func(*command) error { panic("a hook's bug") }}}
	defer func() {
		if recover() == nil {
			t.Error("the caller has not seen it")
		}
	}()
	_, _ = NewRunner(s.client(t)).Run(begin(t, time.Minute), &Call{Script: next, Key: "k", Integers: 2})
}

// However many first calls come at once, Redis refuses one of them, which loads the script.
func TestRun_FirstCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s := forgetful()
		answers := s.answers[0]
		s.answers[0] = func(cmd *command) error {
			defer time.Sleep(time.Millisecond) // so that all are sent before the first answer
			return answers(cmd)
		}
		runner, calls := NewRunner(s.client(t)), sync.WaitGroup{}
		for range 20 {
			calls.Go(func() {
				if _, failure := runner.Run(begin(t, time.Minute), &Call{Script: next, Key: "k", Integers: 2}); failure != nil {
					t.Errorf("%+v", failure)
				}
			})
		}
		calls.Wait()
		if len(s.read) != 22 {
			t.Errorf("sent %d commands, want the first call twice, the script, and 19 calls", len(s.read))
		}
	})
}

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

// Ordered calls are never refused for want of the script, not even some of them: so they
// are run in their order.
func TestRunEach_Ordered(t *testing.T) {
	s := forgetful()
	calls := make([]Call, 100)
	for i := range calls {
		calls[i] = Call{Script: next, Key: "k", Integers: 2, Ordered: true}
	}
	_, failures := NewRunner(s.client(t)).RunEach(begin(t, time.Minute), calls)
	if failures[0] != nil || len(s.read) != len(calls)+1 || s.read[0] != "script load "+next.Text {
		t.Errorf("sent %d commands, first %q; %+v", len(s.read), s.read[0], failures[0])
	}
}

// Where scripts cannot be loaded, as SCRIPT is renamed or forbidden, their texts go along.
func TestRun_LoadRefused(t *testing.T) {
	for _, refusal := range []string{"NOPERM this user has no permissions to run the 'script|load' command", "ERR unknown command 'script'"} {
		s := &server{refused: reply(refusal)}
		s.answers = []answer{s.refuses("NOSCRIPT No matching script"), s.refuses("NOSCRIPT No matching script"), s.replies(1, 0)}
		_, failure := NewRunner(s.client(t)).Run(begin(t, time.Minute), &Call{Script: next, Key: "k", Integers: 2})
		if last := s.read[len(s.read)-1]; failure != nil || last != "eval "+next.Text {
			t.Errorf("%s: %+v, and sent %q last", refusal, failure, last)
		}
	}
}

// A hook that writes arguments down, as for a log, does not hide that Redis ran nothing.
func TestRun_ArgumentsWrittenDown(t *testing.T) {
	s := &server{}
	s.answers = []answer{func(cmd *command) error {
		_, _ = cmd.body.MarshalBinary()
		return s.refuses("NOSCRIPT No matching script")(cmd)
	}, s.replies(1, 0)}
	if _, failure := NewRunner(s.client(t)).Run(begin(t, time.Minute), &Call{Script: next, Key: "k", Integers: 2}); failure != nil {
		t.Errorf("%+v", failure)
	}
}
