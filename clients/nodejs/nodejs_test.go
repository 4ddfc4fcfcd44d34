// Package nodejs_test runs the tests of the Node.js client on real servers.
package nodejs_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/brokertest"
	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
)

var installed nodetest.Copy

func TestMain(m *testing.M) {
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// runTests runs the tests of one file, none of which may be skipped, beside the tests of other
// files: nearly all of them wait.
func runTests(t *testing.T, file string, env ...string) {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", "--test", "--test-reporter=tap", "test/"+file)
	command.Dir = installed.Install(t, "../..", "clients/nodejs")
	command.Env = append(os.Environ(), env...)
	output, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(output), "\n# skipped 0\n") {
		t.Errorf("node --test %s: %v\n%s", file, err, failures(string(output)))
	}
}

// failures leaves out the tests that passed.
func failures(output string) string {
	var kept strings.Builder
	skip := false
	for line := range strings.Lines(output) {
		if text := strings.TrimSpace(line); strings.HasPrefix(text, "ok ") || strings.HasPrefix(text, "# Subtest") {
			skip = true
		} else if strings.HasPrefix(text, "not ok ") || strings.HasPrefix(line, "# ") {
			skip = false
		}
		if !skip {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func TestVectors(t *testing.T) { runTests(t, "vectors.test.mjs") }

func TestCalls(t *testing.T) { runOnRedis(t, "calls.test.mjs") }

func TestMember(t *testing.T) { runOnRedis(t, "member.test.mjs") }

func TestFaults(t *testing.T) { runTests(t, "faults.test.mjs") }

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	runTests(t, "cluster.test.mjs", "CLUSTER="+cluster.Masters[0].Addr)
}

func TestPackage(t *testing.T) { runTests(t, "package.test.mjs") }

func BenchmarkFlood(b *testing.B) {
	installBullMQ(b)
	brokertest.Flood(b, func(b *testing.B, policy priority.Policy, all []brokertest.Arrival) map[string]brokertest.Times {
		command := exec.Command("node", "test/bullmq-flood.mjs")
		command.Dir = installed.Install(b, "../..", "clients/nodejs")
		command.Env = append(os.Environ(), "REDIS=redis://"+redistest.Start(b).Addr)
		return brokertest.Script(b, policy, all, command)
	}, 9)
}

func TestREADME(t *testing.T) {
	installBullMQ(t)
	server := redistest.Start(t)
	runTests(t, "readme.test.mjs", "REDIS="+server.Addr)
}

func TestBullMQ(t *testing.T) {
	installBullMQ(t)
	server := redistest.Start(t)
	runTests(t, "bullmq.test.mjs", "REDIS="+server.Addr)
}

// runOnRedis runs tests that leave no key behind.
func runOnRedis(t *testing.T, file string) {
	t.Helper()
	server := redistest.Start(t)
	t.Cleanup(func() {
		if left := server.Client().Keys(context.Background(), "*").Val(); len(left) > 0 {
			t.Errorf("%q are left behind", left)
		}
	})
	runTests(t, file, "REDIS="+server.Addr)
}

// BullMQ is not in package-lock.json: it depends on a native package for each system,
// and npm would want all of them to be there. npm installs a package that users may have
// beside ours only as one for development.
func installBullMQ(t testing.TB) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "npm", "install", "--no-save", "--save-dev", "--ignore-scripts", "bullmq@6.7.0")
	command.Dir = installed.Install(t, "../..", "clients/nodejs")
	if output, err := command.CombinedOutput(); err != nil {
		redistest.Skip(t, "npm install bullmq, which wants the npm registry: "+err.Error()+"\n"+string(output))
	}
}
