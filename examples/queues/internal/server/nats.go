package server

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
)

// StartNATS starts nats-server with JetStream.
func StartNATS(ctx context.Context) (*Server, error) {
	program, err := find("nats-server", "nats-server", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	return start(ctx, func(ctx context.Context, s *Server) error {
		ports, err := freePorts(1)
		if err != nil {
			return err
		}
		s.URL = fmt.Sprintf("nats://127.0.0.1:%d", ports[0])
		p, err := s.run(exec.Command(program, "-a", "127.0.0.1", "-p", fmt.Sprint(ports[0]), "-js", "-sd", s.dir), syscall.SIGKILL)
		if err != nil {
			return err
		}
		return p.await(ctx, func() bool { return answers(ports[0], "", "INFO") })
	})
}
