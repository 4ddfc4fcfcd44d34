package script

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/bubble"
)

// begin begins a call of a test.
func begin(t *testing.T, timeout time.Duration) *Deadline {
	d := Begin(context.Background(), timeout)
	t.Cleanup(d.End)
	return &d
}

// What may have been run is run again only if that does no harm.
func TestALostAnswerIsTriedAgainOnlyWhereThatDoesNoHarm(t *testing.T) {
	for _, test := range []struct {
		name string
		call Call
		want int // how often it is sent
	}{
		{"counts", Call{}, 1},
		{"repeatable", Call{Repeatable: true}, 2},
		{"read only", Call{ReadOnly: true}, 2},
	} {
		test.call.Script, test.call.Key = next, "k"
		s := &server{}
		s.answers = []answer{s.loses, s.replies(1, 0)}
		_, failure := NewRunner(s.client(t)).Run(begin(t, time.Minute), &test.call)
		if answered := failure == nil; len(s.read) != test.want || answered != (test.want == 2) {
			t.Errorf("%s: sent %d times, %+v", test.name, len(s.read), failure)
		}

		s = &server{}
		s.answers = []answer{s.loses, s.replies(1, 0)}
		_, failures := NewRunner(s.client(t)).RunEach(begin(t, time.Minute), []Call{test.call})
		if answered := failures[0] == nil; len(s.read) != test.want || answered != (test.want == 2) {
			t.Errorf("%s, in a pipeline: sent %d times, %+v", test.name, len(s.read), failures[0])
		}
	}
}

// A refusal or a lack of connections after a lost answer does not undo it.
func TestWhatMayHaveRunStaysOfUnknownOutcome(t *testing.T) {
	call := Call{Script: next, Key: "k", Repeatable: true}
	for name, last := range map[string]func(s *server) answer{
		"refused for a moment": func(s *server) answer { return s.refuses("READONLY You can't write") },
		"refused":              func(s *server) answer { return s.refuses("OOM command not allowed") },
		"no connection":        func(s *server) answer { return s.unreachable },
	} {
		bubble.Test(t, func(t *testing.T) {
			s := &server{}
			s.answers = []answer{s.loses, last(s)}
			runner := NewRunner(s.client(t))
			if _, failure := runner.Run(begin(t, time.Second), &call); failure == nil || failure.Outcome != Unknown {
				t.Errorf("%s: %+v", name, failure)
			}
			s.answers = []answer{s.loses, last(s)}
			if _, failures := runner.RunEach(begin(t, time.Second), []Call{call}); failures[0] == nil || failures[0].Outcome != Unknown {
				t.Errorf("%s, in a pipeline: %+v", name, failures[0])
			}
		})
	}
}

// An error says how an earlier try ended, and does not grow with the tries.
func TestAnErrorSaysHowTheTryBeforeEnded(t *testing.T) {
	for _, inPipeline := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			s := &server{}
			loading := s.refuses("LOADING Redis is loading")
			for range 100 {
				s.answers = append(s.answers, loading, s.unreachable)
			}
			runner, call := NewRunner(s.client(t)), Call{Script: next, Key: "k"}
			d := begin(t, 3*time.Second)
			_, failure := runner.Run(d, &call)
			if inPipeline {
				_, failures := runner.RunEach(begin(t, 3*time.Second), []Call{call})
				failure = failures[0]
			}
			text := failure.Err.Error()
			if !strings.Contains(text, "LOADING") || !strings.Contains(text, "refused") || len(text) > 200 {
				t.Errorf("in a pipeline %t: %.500q", inPipeline, text)
			}
		})
	}
}

// A node that does not know the script is given its text; what is refused for a moment
// is tried again until the time is over, and without a deadline a few times.
func TestARefusalForAMomentIsTriedAgain(t *testing.T) {
	text := "eval " + next.Text
	digest := "evalsha " + string(next.digest)
	loading := func(s *server) answer { return s.refuses("LOADING Redis is loading") }
	for _, test := range []struct {
		name    string
		answers func(s *server) []answer
		want    []string
	}{
		{"the script is not known", func(s *server) []answer {
			return []answer{s.refuses("NOSCRIPT No matching script"), s.replies(1, 0)}
		}, []string{digest, text}},
		{"loading", func(s *server) []answer { return []answer{loading(s), loading(s), s.replies(1, 0)} }, []string{digest, digest, digest}},
		{"no connection, and then loading", func(s *server) []answer {
			return []answer{s.unreachable, s.unreachable, loading(s), s.replies(1, 0)}
		}, []string{digest, digest}},
	} {
		for _, timeout := range []time.Duration{time.Minute, -1} {
			s := &server{}
			runner := NewRunner(s.client(t))
			s.answers = test.answers(s)
			if _, failure := runner.Run(begin(t, timeout), &Call{Script: next, Key: "k"}); failure != nil || !slices.Equal(s.read, test.want) {
				t.Errorf("%s: sent %q, %+v", test.name, s.read, failure)
			}
			s.read, s.answers = nil, test.answers(s)
			_, failures := runner.RunEach(begin(t, timeout), []Call{{Script: next, Key: "k"}})
			if failures[0] != nil || !slices.Equal(s.read, test.want) {
				t.Errorf("%s, in a pipeline: sent %q, %+v", test.name, s.read, failures[0])
			}
		}
	}
	bubble.Test(t, func(t *testing.T) {
		s := &server{}
		s.answers = []answer{loading(s)}
		runner := NewRunner(s.client(t))
		_, failure := runner.Run(begin(t, -1), &Call{Script: next, Key: "k"})
		if failure == nil || failure.Outcome != NotCounted || len(s.read) != maxTries {
			t.Errorf("without a deadline: sent %d times, %+v", len(s.read), failure)
		}
		begun := time.Now()
		_, failure = runner.Run(begin(t, time.Second), &Call{Script: next, Key: "k"})
		if failure == nil || failure.Outcome != NotCounted || time.Since(begun) > time.Second {
			t.Errorf("within a second: %+v after %v", failure, time.Since(begun))
		}
	})
}

// Of a pipeline, only what failed is sent again, and what failed alike shares an
// error.
func TestOnlyWhatFailedIsSentAgain(t *testing.T) {
	const n = 200
	calls := make([]Call, n)
	for i := range calls {
		calls[i] = Call{Script: next, Key: fmt.Sprintf("p:{%d}:count", i)}
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
			ok = failures[i] == nil && slices.Equal(replies[i], []int64{1, -7})
		case 3:
			ok = failures[i] == nil && slices.Equal(replies[i], []int64{1, int64(i)})
		}
		if !ok {
			t.Errorf("call %d: %v, %+v", i, replies[i], failures[i])
		}
	}
	if want := n + n/4; len(s.read) != want {
		t.Errorf("sent %d commands, want %d", len(s.read), want)
	}

	s = &server{}
	s.answers = []answer{s.refuses("OOM command not allowed")}
	_, failures = NewRunner(s.client(t)).RunEach(begin(t, time.Minute), calls)
	for _, failure := range failures {
		if failure != failures[0] {
			t.Fatalf("%+v and %+v are two errors", failures[0], failure)
		}
	}
}

// However many texts are sent, every call is run at last, each once.
func TestAPipelineOnANodeWithoutTheScript(t *testing.T) {
	other := New("return {2, 0}", 2, 0)
	calls := make([]Call, 1000)
	for i := range calls {
		calls[i] = Call{Script: []*Script{next, other}[i%2], Key: fmt.Sprintf("p:{%d}:count", i)}
	}
	s := &server{}
	known := make(map[string]bool)
	s.answers = []answer{func(cmd *command) error {
		s.written(cmd)
		if strings.HasPrefix(s.read[len(s.read)-1], "eval ") {
			known[string(cmd.body.script.digest)] = true
		}
		if !known[string(cmd.body.script.digest)] {
			return reply("NOSCRIPT No matching script")
		}
		cmd.SetVal([]int64{1, 0})
		return nil
	}}
	_, failures := NewRunner(s.client(t)).RunEach(begin(t, time.Minute), calls)
	for i, failure := range failures {
		if failure != nil {
			t.Fatalf("call %d: %+v", i, failure)
		}
	}
	texts := 0
	for _, sent := range s.read {
		if strings.HasPrefix(sent, "eval ") {
			texts++
		}
	}
	if texts == 0 || texts > 2*firstTexts {
		t.Errorf("%d texts were sent", texts)
	}
}
