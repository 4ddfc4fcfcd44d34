package brokertest

import (
	"net"
	"net/url"
	"os"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// A server comes back at its address, and leaves nothing behind.
func TestServer(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *Server{
		"NATS":       StartNATS,
		"PostgreSQL": StartPostgres,
		"RabbitMQ":   func(tb testing.TB) *Server { return StartRabbitMQ(tb) },
	} {
		t.Run(name, func(t *testing.T) {
			var s *Server
			t.Run("runs", func(t *testing.T) {
				s = start(t)
				s.Kill()
				if connects(t, s) {
					t.Error("it answers when it was killed")
				}
				s.Restart()
				if !connects(t, s) {
					t.Error("it does not answer when it has come back")
				}
			})
			if s == nil {
				redistest.Skip(t, "the broker is missing: the line above names the package to install")
			}
			if connects(t, s) {
				t.Error("it answers when its test has ended")
			}
			if _, err := os.Stat(s.dir); !os.IsNotExist(err) {
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
