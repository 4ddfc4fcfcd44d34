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
}

// Kill ends the server as a crash would, at once. Its files stay.
func (s *Server) Kill() {
	s.last().kill()
}

// Restart starts a server that was killed, with its files, at its address.
func (s *Server) Restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for {
		killed := s.last()
		s.processes = s.processes[:len(s.processes)-1]
		p, err := s.run(again(killed.command), killed.quit)
		if err != nil {
			return err
		}
		if err = p.await(ctx, killed.ready); err == nil || ctx.Err() != nil {
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

// start launches a server in a new directory, and again on other ports where it
// fails to come up.
func start(ctx context.Context, launch func(ctx context.Context, s *Server) error) (*Server, error) {
	var failures error
	for range attempts {
		dir, err := os.MkdirTemp("", "priority-example-")
		if err != nil {
			return nil, err
		}
		s := &Server{dir: dir}
		limited, cancel := context.WithTimeout(ctx, startLimit)
		err = launch(limited, s)
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
	ready   func() bool  // set by await
	output  bytes.Buffer // to be read after ended is closed
	ended   chan struct{}
}

// run starts a process that ends with the server, and at the latest with this one,
// by the signal.
func (s *Server) run(command *exec.Cmd, quit syscall.Signal) (*process, error) {
	p := &process{command: command, quit: quit, ended: make(chan struct{})}
	command.Dir = s.dir
	command.Stdout, command.Stderr = &p.output, &p.output
	command.WaitDelay = 5 * time.Second
	isolate(command, quit)
	if err := command.Start(); err != nil {
		return nil, err
	}
	s.processes = append(s.processes, p)
	go func() {
		_ = command.Wait()
		close(p.ended)
	}()
	return p, nil
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

// await polls until ready returns true, and gives up when the process has ended.
func (p *process) await(ctx context.Context, ready func() bool) error {
	p.ready = ready
	for !ready() {
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended: %s", p.command.Path, strings.TrimSpace(p.output.String()))
		case <-ctx.Done():
			return fmt.Errorf("%s does not come up: %w", p.command.Path, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
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
