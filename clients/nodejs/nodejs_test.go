// Package nodejs_test runs the tests of the Node.js client on real servers.
package nodejs_test

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

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

func TestNodeKeepsToTheWordsOfTheContract(t *testing.T) { runTests(t, "words.test.mjs") }

func TestNodeDecidesTheSameWithAllSettings(t *testing.T) {
	server := redistest.Start(t)
	runTests(t, "settings.test.mjs", "REDIS="+server.Addr)
	if left := server.Client().DBSize(t.Context()).Val(); left != 0 {
		t.Errorf("%d keys are left behind", left)
	}
}

func TestNodeFollowsRulesAndReports(t *testing.T) {
	server := redistest.Start(t)
	runTests(t, "member.test.mjs", "REDIS="+server.Addr)
	if left := server.Client().DBSize(t.Context()).Val(); left != 0 {
		t.Errorf("%d keys are left behind", left)
	}
}

func TestNodeCountsForReports(t *testing.T) { runTests(t, "collect.test.mjs") }

func TestNodeKeepsToTheVectors(t *testing.T) { runTests(t, "vectors.test.mjs") }

func TestNodeDecidesInMemoryAsRedisDoes(t *testing.T) {
	server := redistest.Start(t)
	runTests(t, "memory.test.mjs", "REDIS="+server.Addr)
}

func TestNodeFallsBack(t *testing.T) { runTests(t, "fallback.test.mjs") }

func TestNodeAnswersFromMemoryDuringAnOutage(t *testing.T) {
	redistest.Find(t, "redis-server", "redis-server")
	runTests(t, "outage.test.mjs")
}

func TestNodeStandsFaults(t *testing.T) { runTests(t, "faults.test.mjs") }

func TestNodeConnectsAgainWithPauses(t *testing.T) { runTests(t, "connection.test.mjs") }

func TestNodeAsksTheNextSentinel(t *testing.T) { runTests(t, "sentinel.test.mjs") }

func TestNodeFollowsTheSlotsOfACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	runTests(t, "cluster.test.mjs", "CLUSTER="+cluster.Masters[0].Addr)
}

func TestNodePackageIsWholeAndTyped(t *testing.T) { runTests(t, "package.test.mjs") }

func TestNodeREADMERuns(t *testing.T) {
	installBullMQ(t)
	server := redistest.Start(t)
	runTests(t, "readme.test.mjs", "REDIS="+server.Addr)
}

func TestNodeSaysDoneForTheJobsOfBullMQ(t *testing.T) {
	installBullMQ(t)
	server := redistest.Start(t)
	runTests(t, "bullmq.test.mjs", "REDIS="+server.Addr)
}

// BullMQ is not in package-lock.json: it depends on a native package for each system,
// and npm would want all of them to be there. npm installs a package that users may have
// beside ours only as one for development.
func installBullMQ(t *testing.T) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "npm", "install", "--no-save", "--save-dev", "--ignore-scripts", "bullmq@6.7.0")
	command.Dir = installed.Install(t, "../..", "clients/nodejs")
	if output, err := command.CombinedOutput(); err != nil {
		redistest.Skip(t, "npm install bullmq, which wants the npm registry: "+err.Error()+"\n"+string(output))
	}
}
