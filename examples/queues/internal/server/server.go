// Package server starts a real server for an example or a test: from the PATH, on
// free loopback ports, with its files in a temporary directory that goes with it.
package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	startLimit = 2 * time.Minute
	quitLimit  = 10 * time.Second
	attempts   = 3 // another process may take a port between its choice and its use
)

// Server is a running server.
type Server struct {
	URL string

	dir       string
	processes []*process
	durable   func() bool // nil: what it has confirmed is on disk
}

// Kill ends the server as a crash would, at once. Its files stay.
func (s *Server) Kill() {
	for limit := time.Now().Add(quitLimit); s.durable != nil && !s.durable() && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond)
	}
	s.last().kill()
}

// Restart starts a server that was killed, with its files, at its address.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		killed := s.last()
		s.processes = s.processes[:len(s.processes)-1]
		if err := s.run(ctx, again(killed.command), killed.quit, killed.ready); err == nil || ctx.Err() != nil {
			return err
		}
		// What the killed one has left, such as shared memory, is there for a moment.
	}
}

// last is the server itself, after the processes that it needs.
func (s *Server) last() *process {
	return s.processes[len(s.processes)-1]
}

// again returns a command that has been run as a new one.
func again(command *exec.Cmd) *exec.Cmd {
	return &exec.Cmd{Path: command.Path, Args: command.Args, Env: command.Env, SysProcAttr: command.SysProcAttr}
}

// Stop ends the server and removes its files.
func (s *Server) Stop() {
	for _, p := range slices.Backward(s.processes) {
		p.end()
	}
	_ = os.RemoveAll(s.dir)
}

// StartNATS starts nats-server with JetStream.
func StartNATS(ctx context.Context) (*Server, error) {
	program, err := find("nats-server", "nats-server", "/usr/sbin")
	if err != nil {
		return nil, err
	}
	return start(ctx, 1, func(ctx context.Context, s *Server, ports []int) error {
		s.URL = fmt.Sprintf("nats://127.0.0.1:%d", ports[0])
		command := exec.Command(program, "-a", "127.0.0.1", "-p", fmt.Sprint(ports[0]), "-js", "-sd", s.dir)
		return s.run(ctx, command, syscall.SIGKILL, func() bool { return answers(ports[0], "", "INFO") })
	})
}

// StartRedis starts redis-server, which has written what it confirms. With
// appendfsync everysec, its default, it writes up to two seconds late where the disk
// is busy.
func StartRedis(ctx context.Context) (*Server, error) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		return nil, err
	}
	return start(ctx, 1, func(ctx context.Context, s *Server, ports []int) error {
		s.URL = fmt.Sprintf("redis://127.0.0.1:%d", ports[0])
		command := exec.Command(program, "--port", fmt.Sprint(ports[0]), "--bind", "127.0.0.1",
			"--save", "", "--appendonly", "yes", "--appendfsync", "always")
		return s.run(ctx, command, syscall.SIGKILL, func() bool { return answers(ports[0], "PING\r\n", "+PONG") })
	})
}

// MissingError reports a program that is not installed.
type MissingError struct {
	Program       string
	DebianPackage string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s is not installed: apt-get install %s", e.Program, e.DebianPackage)
}

// find returns the path of a program: from the PATH, or from the places, which are
// patterns, that Debian has it in and where the PATH does not lead.
func find(program, debianPackage string, places ...string) (string, error) {
	for _, place := range places {
		if found, _ := filepath.Glob(filepath.Join(place, program)); len(found) > 0 {
			return found[len(found)-1], nil
		}
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return "", &MissingError{program, debianPackage}
	}
	return path, nil
}

// start launches a server in a new directory with some free ports, and again on others
// if it fails to come up.
func start(ctx context.Context, ports int, launch func(ctx context.Context, s *Server, ports []int) error) (*Server, error) {
	var failures error
	for range attempts {
		dir, err := os.MkdirTemp("", "priority-example-")
		if err != nil {
			return nil, err
		}
		s := &Server{dir: dir}
		limited, cancel := context.WithTimeout(ctx, startLimit)
		free, err := freePorts(ports)
		if err == nil {
			err = launch(limited, s, free)
		}
		cancel()
		if err == nil {
			return s, nil
		}
		s.Stop()
		failures = errors.Join(failures, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, failures
}

// process is one process of a server.
type process struct {
	command *exec.Cmd
	quit    syscall.Signal
	ready   func() bool
	output  bytes.Buffer // to be read after ended is closed
	ended   chan struct{}
}

// run starts a process that ends with the server, and at the latest with this one, by
// the signal, and polls until it is ready. It gives up when the process has ended.
func (s *Server) run(ctx context.Context, command *exec.Cmd, quit syscall.Signal, ready func() bool) error {
	p := &process{command: command, quit: quit, ready: ready, ended: make(chan struct{})}
	command.Dir = s.dir
	command.Stdout, command.Stderr = &p.output, &p.output
	command.WaitDelay = 5 * time.Second
	isolate(command, quit)
	if err := command.Start(); err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", command.Path, strings.TrimSpace(p.output.String()))
		case <-ctx.Done():
			return fmt.Errorf("%s does not come up: %w", command.Path, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

// end ends the process and what it has started.
func (p *process) end() {
	signalGroup(p.command, p.quit)
	select {
	case <-p.ended:
	case <-time.After(quitLimit):
		p.kill()
	}
}

func (p *process) kill() {
	signalGroup(p.command, syscall.SIGKILL)
	<-p.ended
}

// freePorts returns different loopback ports that are free.
func freePorts(n int) ([]int, error) {
	ports := make([]int, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close()
		ports[i] = listener.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

// answers returns whether a server at a port answers a request with what begins as
// wanted.
func answers(port int, request, wanted string) bool {
	conn, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", port), time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	if _, err := io.WriteString(conn, request); err != nil {
		return false
	}
	answer := make([]byte, len(wanted))
	_, err = io.ReadFull(conn, answer)
	return err == nil && string(answer) == wanted
}
