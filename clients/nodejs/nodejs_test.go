// Package nodejs_test runs the tests of the Node.js client on real servers. Package release installs
// it as its users do.
package nodejs_test

import (
	"context"
	"flag"
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

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // the tests wait most of the time
		panic(err)
	}
	os.Exit(m.Run())
}

// Each file of tests has a Redis of its own. None of its tests may be skipped.
func TestNode(t *testing.T) {
	files, err := filepath.Glob("test/*.test.mjs")
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no tests: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			command := exec.CommandContext(ctx, "node", "--test", "--test-reporter=tap", file)
			command.Dir = nodetest.Client(t)
			command.Env = append(os.Environ(), "REDIS="+redistest.Start(t).Addr)
			if strings.HasSuffix(file, "cluster.test.mjs") {
				command.Env = append(command.Env, "CLUSTER="+redistest.StartCluster(t, 3).Masters[0].Addr)
			}
			output, err := command.CombinedOutput()
			if err != nil || !strings.Contains(string(output), "\n# skipped 0\n") {
				t.Errorf("node --test %s: %v\n%s", file, err, failures(string(output)))
			}
		})
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

func BenchmarkFlood(b *testing.B) {
	client := nodetest.Client(b)
	brokertest.Flood(b, brokertest.Script(func(redis string) *exec.Cmd {
		command := exec.Command("node", "test/bullmq-flood.mjs")
		command.Dir = client
		command.Env = append(os.Environ(), "REDIS="+redis)
		return command
	}))
}
