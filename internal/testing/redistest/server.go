// Package redistest starts real Redis servers for tests and benchmarks, on free
// loopback ports and without the machine's configuration, and ends them with the
// test.
package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a running redis-server.
type Server struct {
	Addr string

	tb   testing.TB
	args []string
	cmd  *exec.Cmd
}

// Find returns the path of a program that a test needs. Where there is none it
// skips the test, or fails it if CI is set, and says which Debian package has it.
func Find(tb testing.TB, program, debianPackage string) string {
	tb.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		Skip(tb, fmt.Sprintf("%v: apt-get install %s", err, debianPackage))
	}
	return path
}

// Skip skips a test for want of something, or fails it if CI is set.
func Skip(tb testing.TB, why string) {
	tb.Helper()
	if os.Getenv("CI") != "" {
		tb.Fatal(why)
	}
	tb.Skip(why)
}

// serverProgram returns the path of the server named by the environment's
// REDIS_SERVER, which must be there, or else of redis-server.
func serverProgram(tb testing.TB) string {
	tb.Helper()
	program := os.Getenv("REDIS_SERVER")
	if program == "" {
		return Find(tb, "redis-server", "redis-server")
	}
	path, err := exec.LookPath(program)
	if err != nil {
		tb.Fatalf("REDIS_SERVER: %v", err)
	}
	return path
}

// Start starts redis-server from the PATH, or the server named by the
// environment's REDIS_SERVER, and waits until it answers. It keeps nothing on
// disk, unless further command line arguments say so.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	program := serverProgram(tb)
	port := FreePort(tb)
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), tb: tb}
	s.args = append([]string{
		program, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--dir", tb.TempDir(),
		"--logfile", "redis.log", "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
	}, args...)
	tb.Cleanup(s.Kill)
	s.Restart()
	return s
}

// Client returns a client of the server, closed with the test.
func (s *Server) Client() *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	s.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Restart starts the server again after a Kill, on the same port and directory, and waits
// until it answers, with data or a refusal.
func (s *Server) Restart() {
	s.tb.Helper()
	s.cmd = exec.Command(s.args[0], s.args[1:]...)
	dieWithParent(s.cmd)
	if err := s.cmd.Start(); err != nil {
		s.tb.Fatalf("start %s: %v", s.args[0], err)
	}
	client := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	defer client.Close()
	Await(s.tb, "redis-server answers", func() bool {
		err := client.Ping(context.Background()).Err()
		return err == nil || redis.IsAuthError(err)
	})
}

// Kill ends the server at once, as a crash would.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
	s.cmd = nil
}

// Signal sends the server process a signal.
func (s *Server) Signal(signal os.Signal) {
	s.tb.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.tb.Fatalf("signal redis-server: %v", err)
	}
}

// KillClients closes all connections of clients.
func (s *Server) KillClients() {
	s.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer client.Close()
	if err := client.ClientKillByFilter(context.Background(), "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		s.tb.Fatalf("CLIENT KILL: %v", err)
	}
}

// Await polls a condition until it holds, and fails the test if it does not
// within half a minute.
func Await(tb testing.TB, what string, condition func() bool) {
	tb.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 30 s: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// ports are handed out in turn, from a random one on, so that servers started
// in parallel never get the same. A cluster node also takes the port
// 10,000 above its own; those are no server's own port, and all are below the
// ports that the system gives to outgoing connections.
const firstPort, portCount, busOffset = 11_000, 10_000, 10_000

var ports = struct {
	sync.Mutex
	next int
}{next: rand.IntN(portCount)}

// FreePort returns a loopback port that is free, as is the one 10,000 above it,
// which a cluster node uses too. No other test gets it until this one has ended.
func FreePort(tb testing.TB) int {
	tb.Helper()
	ports.Lock()
	defer ports.Unlock()
	for range portCount {
		port := firstPort + ports.next
		ports.next = (ports.next + 1) % portCount
		if reserve(tb, port) && free(port) && free(port+busOffset) {
			return port
		}
	}
	tb.Fatal("found no free port")
	return 0
}

// reserve keeps a port from the tests of other processes until this one has ended, and
// reports whether none of them has it. They all bind the port of a second loopback
// address for that; where there is none, as on macOS, no port is reserved.
func reserve(tb testing.TB, port int) bool {
	held, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err == nil {
		tb.Cleanup(func() { _ = held.Close() })
	}
	return !errors.Is(err, syscall.EADDRINUSE)
}

func free(port int) bool {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return false
	}
	_ = listener.Close()
	return true
}
