package script

import (
	"io"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

var next = New("return {1, 0}")

// What is given up before it is written is written, if at all, as a script that does
// nothing, or that no node knows.
func TestCommand_GivenUp(t *testing.T) {
	s := &server{}
	for _, withText := range []bool{false, true} {
		cmd := new(command)
		cmd.prepare(t.Context(), &Call{Script: next, Key: "k", Integers: 2}, withText, 0)
		if asked := cmd.body.cancel(); asked != 0 {
			t.Fatalf("it was sent %d times", asked)
		}
		s.written(cmd)
	}
	if want := []string{"evalsha " + string(noDigest), "eval return 0"}; !slices.Equal(s.read, want) {
		t.Errorf("written: %q, want %q", s.read, want)
	}
}

// go-redis's own retries and those of a hook must not make a lost command look
// like one that was never sent.
func TestCommand_SentAgain(t *testing.T) {
	for name, second := range map[string]func(s *server) answer{
		"no connection": func(s *server) answer { return s.unreachable },
		"a refusal":     func(s *server) answer { return s.refuses("LOADING Redis is loading") },
		"lost too":      func(s *server) answer { return s.loses },
	} {
		s := &server{}
		client := s.client(t)
		runner := NewRunner(client)
		s.answers = []answer{func(cmd *command) error { // as a hook that tries again does
			_ = s.loses(cmd)
			return second(s)(cmd)
		}}
		_, failure := runner.Run(begin(t, -1), &Call{Script: next, Key: "k", Integers: 2})
		if failure == nil || failure.Outcome != Unknown {
			t.Errorf("%s: %+v", name, failure)
		}
	}
}

// An AutoPipeliner asks for the bytes to know their number. Where it then says
// that it found no connection, the command was not sent; of a ClusterClient, which
// follows redirects, that is the last try only.
func TestCommand_SizedByAutoPipeliner(t *testing.T) {
	for _, test := range []struct {
		client Client
		want   Outcome
	}{
		{pipeliner{}, NotCounted},
		{new(redis.Client), Unknown},
		{new(redis.Ring), Unknown},
		{new(redis.ClusterClient), Unknown},
		{struct{ Client }{}, Unknown},
	} {
		s, cmd := &server{}, new(command)
		call := &Call{Script: next, Key: "k", Integers: 2}
		cmd.prepare(t.Context(), call, false, 0)
		s.written(cmd)
		cmd.SetErr(errRefused)
		if got := cmd.result(call, nil, habitsOf(test.client)); got.Outcome != test.want {
			t.Errorf("%T: %+v, want outcome %d", test.client, got, test.want)
		}
		cmd.SetErr(io.EOF)
		if got := cmd.result(call, nil, habitsOf(test.client)); got.Outcome != Unknown {
			t.Errorf("%T, a lost answer: %+v", test.client, got)
		}
	}
}

// pipeliner stands in for a *redis.AutoPipeliner.
type pipeliner struct{ Client }

func (pipeliner) IsBlocking() bool { return true }
