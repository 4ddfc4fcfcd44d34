package server

import (
	"context"
	"fmt"
	"os/exec"
	"syscall"
)

// StartRedis starts redis-server, which has written what it confirms. With
// appendfsync everysec, its default, it writes up to two seconds late where the disk
// is busy.
func StartRedis(ctx context.Context) (*Server, error) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	return start(ctx, func(ctx context.Context, s *Server) error {
		ports, err := freePorts(1)
		if err != nil {
			return err
		}
		s.URL = fmt.Sprintf("redis://127.0.0.1:%d", ports[0])
		p, err := s.run(exec.Command(program, "--port", fmt.Sprint(ports[0]), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "yes", "--appendfsync", "always"), syscall.SIGKILL)
		if err != nil {
			return err
		}
		return p.await(ctx, func() bool { return answers(ports[0], "PING\r\n", "+PONG") })
	})
}
