// Package nodejs_test runs the Node.js worker.
package nodejs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/nodetest"
)

var installed nodetest.Copy

func TestMain(m *testing.M) {
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// node makes a command that ends with the test at the latest.
func node(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	dir := installed.Install(t, "../..", "examples/nodejs")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	command := exec.CommandContext(ctx, "node", args...)
	command.Dir = dir
	return command
}

// counts reads the counts that a worker printed, and checks their levels. Documents that
// it could not count have none.
func counts(t *testing.T, stdout string) []int64 {
	t.Helper()
	var given []int64
	for line := range strings.Lines(stdout) {
		var decision struct {
			Level    priority.Level
			Count    int64
			Degraded bool
		}
		if err := json.Unmarshal([]byte(line), &decision); err != nil {
			t.Fatalf("a worker printed %q: %v", line, err)
		}
		if decision.Degraded {
			if decision.Level != priority.First {
				t.Errorf("a worker printed %q; want the first level", line)
			}
			continue
		}
		if want := (priority.Policy{}).Level(decision.Count); decision.Level != want {
			t.Errorf("a worker printed %q; the level of that count is %d", line, want)
		}
		given = append(given, decision.Count)
	}
	return given
}

// clients are the client libraries that a worker may have.
var clients = []string{"node-redis", "ioredis"}

func TestNodeTellsMisuse(t *testing.T) {
	for _, test := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"--documents", "many"}, 2, "worker: --documents many is not a whole number\nusage: "},
		{[]string{"--pause", "-1"}, 2, "worker: "},
		{[]string{"--client", "other"}, 2, "worker: --client other is not one of node-redis,ioredis\nusage: "},
		{[]string{"--nonsense"}, 2, "usage: "},
		{[]string{"--timeout", "0"}, 2, "worker: docpriority: timeout = 0 is not"},
		{[]string{"--prefix", "a{b"}, 2, "worker: docpriority: the prefix "},
		{[]string{"--customer="}, 2, "worker: docpriority: a customer "},
		{[]string{"--redis", "foo:bar"}, 2, "worker: Invalid URL\nusage: "},
		{[]string{"--redis", "foo:bar", "--client", "ioredis"}, 2, "worker: Invalid URL\nusage: "},
	} {
		command := node(t, append([]string{"worker.mjs", "--redis", "127.0.0.1:1"}, test.args...)...)
		var stderr bytes.Buffer
		command.Stderr = &stderr
		stdout, _ := command.Output()
		if status := command.ProcessState.ExitCode(); status != test.status || !strings.Contains(stderr.String(), test.stderr) || len(stdout) > 0 {
			t.Errorf("%q: exit status %d, stdout %q, stderr %q", test.args, status, stdout, stderr.String())
		}
	}
}
