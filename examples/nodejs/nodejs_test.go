// Package nodejs_test runs the Node.js worker.
package nodejs_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
)

var installed nodetest.Copy

func TestMain(m *testing.M) {
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// run runs the worker and returns what it prints.
func run(t *testing.T, addr string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", "worker.mjs", "redis://"+addr)
	command.Dir = installed.Install(t, "../..", "examples/nodejs")
	command.Stdin = strings.NewReader("flood a\nflood b\nflood c\nbakery d\n")
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	return string(out)
}

const decided = `a of flood has level 1
b of flood has level 1
c of flood has level 2
d of bakery has level 1
`

const done = `a is done
b is done
d is done
c is done
`

// The worker shares its numbers with a store in Go.
func TestWorker(t *testing.T) {
	server := redistest.Start(t)
	store, err := priority.NewRedisStore(server.Client(), &priority.RedisOptions{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	// A busy machine may not keep the worker's 250 ms: then its memory has decided.
	for try := 3; ; try-- {
		out := run(t, server.Addr)
		if out == decided+done {
			break
		}
		if try == 1 || !strings.Contains(out, "without Redis") {
			t.Fatalf("the worker prints\n%s", out)
		}
		if err := store.Reset(t.Context(), "flood"); err != nil {
			t.Fatal(err)
		}
		if err := store.Reset(t.Context(), "bakery"); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := store.Peek(t.Context(), "flood"); err != nil || s.Pending != 0 || s.Recent < 2.9 {
		t.Errorf("after the worker the state is %+v, %v", s, err)
	}
}

func TestWorker_WithoutRedis(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := listener.Addr().String()
	_ = listener.Close()
	want := strings.ReplaceAll(decided, "\n", ", without Redis\n") + done
	if out := run(t, addr); out != want {
		t.Errorf("the worker prints\n%s", out)
	}
}
