// Package nodejs_test runs the tests of the Node.js client on real servers.
package nodejs_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority/clients/nodetest"
	"github.com/docpriority/priority/internal/testing/brokertest"
	"github.com/docpriority/priority/internal/testing/redistest"
)

var installed nodetest.Copy

func TestMain(m *testing.M) {
	status := m.Run()
	installed.Remove()
	os.Exit(status)
}

// checkout returns a copy of this folder in which npm has installed the client libraries.
func checkout(t testing.TB) string {
	t.Helper()
	return installed.Install(t, "../..", "clients/nodejs")
}

// runTests runs the tests of one file in the checkout.
func runTests(t *testing.T, file string, env ...string) {
	t.Helper()
	runTestsIn(t, checkout(t), file, env...)
}

// runTestsIn runs the tests of one file, none of which may be skipped, beside the tests of other
// files: nearly all of them wait.
func runTestsIn(t *testing.T, folder, file string, env ...string) {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "node", "--test", "--test-reporter=tap", "test/"+file)
	command.Dir = folder
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

func TestMemory(t *testing.T) { runOnRedis(t, "memory.test.mjs") }

func TestMember(t *testing.T) { runOnRedis(t, "member.test.mjs") }

func TestFaults(t *testing.T) { runTests(t, "faults.test.mjs") }

func TestCluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	runTests(t, "cluster.test.mjs", "CLUSTER="+cluster.Masters[0].Addr)
}

// The package does what it should where users have it.
func TestPackage(t *testing.T) {
	user := install(t)
	for file, folder := range map[string]string{"package.test.mjs": checkout(t), "readme.test.mjs": checkout(t), "bullmq.test.mjs": user} {
		t.Run(file, func(t *testing.T) { runTestsIn(t, folder, file, "FOLDER="+user, "REDIS="+redistest.Start(t).Addr) })
	}
}

func BenchmarkFlood(b *testing.B) {
	user := install(b)
	brokertest.Flood(b, brokertest.Script(func(redis string) *exec.Cmd {
		command := exec.Command("node", "test/bullmq-flood.mjs")
		command.Dir = user
		command.Env = append(os.Environ(), "REDIS="+redis)
		return command
	}))
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

// install returns a folder in which npm has installed the package as for a user, with all that it
// is used with, and with its tests.
func install(t testing.TB) string {
	t.Helper()
	folder, npm := t.TempDir(), func(folder string, args ...string) string {
		command := exec.CommandContext(t.Context(), "npm", args...)
		var stderr strings.Builder
		command.Dir, command.Stderr = folder, &stderr
		output, err := command.Output()
		if err != nil {
			redistest.Skip(t, fmt.Sprintf("npm %s, which needs the npm registry: %v\n%s", args, err, &stderr))
		}
		return strings.TrimSpace(string(output))
	}
	archive := npm(checkout(t), "pack", "--silent", "--pack-destination", folder)
	npm(folder, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=5",
		"./"+archive, "bullmq@6.7.0", "ioredis@6", "redis@6", "typescript@5.9.3", "@types/node@20")
	if err := os.CopyFS(filepath.Join(folder, "test"), os.DirFS("test")); err != nil {
		t.Fatal(err)
	}
	return folder
}
