// Package brokertest starts real brokers for tests, on free loopback ports and without the
// machine's configuration, and ends them with the test. Its suite checks what each
// queue's module promises. Package redistest starts Redis.
package brokertest

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
)

const startLimit = 2 * time.Minute

// Broker is a server that a test may crash.
type Broker interface {
	Kill()
	Restart()
}

// Server is a running broker.
type Server struct {
	URL string

	tb      testing.TB
	dir     string
	program string
	args    []string
	env     []string
	ready   func() bool
	durable func() bool    // nil: what it has confirmed is on disk
	quit    syscall.Signal // ends it as a crash would

	command *exec.Cmd
	wait    func() error
}

// StartNATS starts nats-server with JetStream.
func StartNATS(tb testing.TB) *Server {
	tb.Helper()
	program := find(tb, "nats-server", "nats-server", "/usr/sbin")
	port := redistest.FreePort(tb)
	dir := tempDir(tb)
	s := &Server{
		URL: fmt.Sprintf("nats://127.0.0.1:%d", port), tb: tb, dir: dir, quit: syscall.SIGKILL,
		program: program, args: []string{"-a", "127.0.0.1", "-p", fmt.Sprint(port), "-js", "-sd", dir},
		ready: func() bool { return answers(port, "", "INFO") },
	}
	s.Restart()
	return s
}

// Kill ends the server as a crash would, at once. Its files stay.
func (s *Server) Kill() {
	if s.durable != nil {
		redistest.Await(s.tb, "what the broker has confirmed is on disk", s.durable)
	}
	s.end()
}

func (s *Server) end() {
	if s.command != nil {
		_ = s.command.Process.Signal(s.quit)
		_ = s.wait()
		s.command = nil
	}
}

// Restart starts a server that was killed, with its files, at its address.
func (s *Server) Restart() {
	s.tb.Helper()
	s.command = exec.Command(s.program, s.args...)
	s.command.Dir, s.command.Env = s.dir, s.env
	log := filepath.Join(s.dir, "output.log")
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer output.Close()
	s.command.Stdout, s.command.Stderr = output, output
	s.wait = redistest.StartProgram(s.tb, s.command)
	s.tb.Cleanup(s.end)
	ended := make(chan struct{})
	go func() {
		_ = s.wait()
		close(ended)
	}()
	for limit := time.After(startLimit); !s.ready(); {
		select {
		case <-ended:
		case <-limit:
		case <-time.After(20 * time.Millisecond):
			continue
		}
		said, _ := os.ReadFile(log)
		s.tb.Fatalf("%s does not come up: %s", s.program, said)
	}
}

// tempDir is a directory for a server that may run as another user, which a test's own
// directory is closed to.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "priority-")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// find returns the path of a program: from place, a pattern for where Debian puts it off
// the PATH, or from the PATH.
func find(tb testing.TB, program, debianPackage, place string) string {
	tb.Helper()
	if found, _ := filepath.Glob(filepath.Join(place, program)); len(found) > 0 {
		return found[len(found)-1]
	}
	return redistest.Find(tb, program, debianPackage)
}

// answers reports whether the reply of a server at a port to a request begins with
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
