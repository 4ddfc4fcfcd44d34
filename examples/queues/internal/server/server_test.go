package server

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// Each server comes up, comes back after a crash at its address, with its files, and
// in the end leaves no process of its own and no file.
func TestAServerComesBackAfterACrashAndLeavesNothing(t *testing.T) {
	for name, start := range map[string]func(context.Context) (*Server, error){
		"RabbitMQ": StartRabbitMQ, "Postgres": StartPostgres, "NATS": StartNATS, "Redis": StartRedis,
	} {
		t.Run(name, func(t *testing.T) {
			s, err := start(t.Context())
			if missing := (*MissingError)(nil); errors.As(err, &missing) {
				redistest.Skip(t, err.Error())
			} else if err != nil {
				t.Fatal(err)
			}
			ofStart := s.last()
			s.Kill()
			if connects(t, s) {
				t.Error("it can be reached after it was killed")
			}
			if err := s.Restart(t.Context()); err != nil || !connects(t, s) {
				t.Errorf("it does not come back: %v", err)
			}
			if was, is := ofStart.command.Args, s.last().command.Args; !slices.Equal(was, is) || ofStart.command.Dir != s.last().command.Dir {
				t.Errorf("started as %q, then as %q", was, is)
			}
			s.Stop()
			for _, p := range s.processes {
				if p.command.ProcessState == nil {
					t.Errorf("%s still runs", p.command.Path)
				}
			}
			if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the directory is still there: %v", err)
			}
		})
	}
}

func connects(t *testing.T, s *Server) bool {
	t.Helper()
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", address.Host)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

func TestMissingProgramIsNamedWithItsPackage(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := StartRedis(t.Context())
	if want := "redis-server is not installed: apt-get install redis-server"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestServerThatDoesNotComeUp: its complaint is in the error, and no try leaves
// anything behind.
func TestServerThatDoesNotComeUp(t *testing.T) {
	program, err := find("redis-server", "redis-server")
	if err != nil {
		redistest.Skip(t, err.Error())
	}
	var tries []*Server
	_, err = start(t.Context(), 1, func(ctx context.Context, s *Server, _ []int) error {
		tries = append(tries, s)
		return s.run(ctx, exec.Command(program, "--no-such-option"), syscall.SIGKILL, func() bool { return false })
	})
	if err == nil || len(tries) != attempts {
		t.Errorf("%d tries, error %v", len(tries), err)
	}
	for _, s := range tries {
		if _, err := os.Stat(s.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a directory is still there: %v", err)
		}
	}
}
