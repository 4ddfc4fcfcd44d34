package script

import (
	"context"
	"encoding"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// answer is what a server does with one command that it may have read.
type answer func(cmd *command) error

// server answers in place of Redis: it is a hook that never lets a client send
// anything. Each command gets the next of the answers; the last one stays.
type server struct {
	mu      sync.Mutex
	answers []answer
	read    []string // the first arguments of each command that was written
	refused error    // the answer to each SCRIPT LOAD
}

// client returns a client whose commands this server gets.
func (s *server) client(t *testing.T) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address, Dialer: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("nothing goes to a network here")
	}})
	client.AddHook(s)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func (s *server) serve(cmd redis.Cmder) error {
	if load, ok := cmd.(*load); ok {
		s.written(load)
		load.SetErr(s.refused)
		return s.refused
	}
	s.mu.Lock()
	answer := s.answers[0]
	if len(s.answers) > 1 {
		s.answers = s.answers[1:]
	}
	s.mu.Unlock()
	c := cmd.(*command)
	err := answer(c)
	c.SetErr(err)
	return err
}

// written reads a command as a connection would, up to its script.
func (s *server) written(cmd redis.Cmder) {
	line := ""
	for _, arg := range cmd.Args() {
		if script, ok := arg.(encoding.BinaryMarshaler); ok {
			text, _ := script.MarshalBinary()
			line += string(text)
			break
		}
		line += fmt.Sprint(arg, " ")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.read = append(s.read, line)
}

// replies is a reply.
func (s *server) replies(integers ...int64) answer {
	return func(cmd *command) error {
		s.written(cmd)
		cmd.integers.SetVal(integers)
		return nil
	}
}

// refuses is an error reply.
func (s *server) refuses(text string) answer {
	return func(cmd *command) error {
		s.written(cmd)
		return reply(text)
	}
}

// loses is no answer at all.
func (s *server) loses(cmd *command) error {
	s.written(cmd)
	return io.EOF
}

// unreachable is what happens where there is no connection.
func (s *server) unreachable(*command) error { return errRefused }

var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

// reply is an error reply of Redis.
type reply string

func (r reply) Error() string { return string(r) }
func (reply) RedisError()     {}

func (s *server) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *server) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(_ context.Context, cmd redis.Cmder) error { return s.serve(cmd) }
}

func (s *server) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(_ context.Context, cmds []redis.Cmder) error {
		for _, cmd := range cmds {
			_ = s.serve(cmd)
		}
		return nil
	}
}
