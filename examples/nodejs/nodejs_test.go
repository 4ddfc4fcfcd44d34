// Package nodejs_test runs the Node.js worker beside Go stores.
package nodejs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/nodetest"
	"github.com/docpriority/priority/internal/redistest"
)

var installed nodetest.Copy

func TestMain(m *testing.M) {
	if addr := os.Getenv(goWorkerRedis); addr != "" {
		if err := goWorker(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
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

// together is the customer whose documents Go and Node.js processes count.
const together = "100% {acme}"

// goWorkerRedis is the environment's variable that makes a worker of the test's
// binary, on the server that it names.
const goWorkerRedis = "GO_WORKER_REDIS"

// goWorker counts documents until its standard input ends, and prints what it is
// told as the Node.js worker does.
func goWorker(addr string) error {
	client := redis.NewClient(&redis.Options{Addr: addr})
	defer client.Close()
	store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: 30 * time.Second})
	if err != nil {
		return err
	}
	var over atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		over.Store(true)
	}()
	out := bufio.NewWriter(os.Stdout)
	for n := 1; !over.Load(); n = n%3 + 1 {
		decisions, err := store.NextN(context.Background(), together, n)
		if err != nil {
			return err
		}
		for _, decision := range decisions {
			fmt.Fprintf(out, `{"level":%d,"count":%d}`+"\n", decision.Level, decision.Count)
		}
	}
	return out.Flush()
}

// Node.js and Go processes count documents of one customer at once.
func TestGoAndNodeCountTogether(t *testing.T) {
	const nodeWorkers, goWorkers, documents = 3, 3, 500
	server := redistest.Start(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}

	var outputs [nodeWorkers + goWorkers]bytes.Buffer
	var errorOutputs [nodeWorkers + goWorkers]bytes.Buffer
	var inputs []io.Closer
	var nodes, all sync.WaitGroup
	run := func(i int, command *exec.Cmd) {
		command.Stdout, command.Stderr = &outputs[i], &errorOutputs[i]
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if i < nodeWorkers {
			nodes.Add(1)
		}
		all.Go(func() {
			if err := command.Wait(); err != nil {
				t.Errorf("worker %d: %v\n%s", i, err, errorOutputs[i].String())
			}
			if i < nodeWorkers {
				nodes.Done()
			}
		})
	}
	// The Go processes count for as long as there is a Node.js process that does.
	for i := range goWorkers {
		command := exec.CommandContext(t.Context(), self)
		command.Env = append(os.Environ(), goWorkerRedis+"="+server.Addr)
		input, err := command.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, input)
		run(nodeWorkers+i, command)
	}
	for i := range nodeWorkers {
		run(i, node(t, "worker.mjs", "--redis", server.Addr, "--customer", together, "--documents", fmt.Sprint(documents), "--timeout", "30000", "--client", clients[i%len(clients)]))
	}
	nodes.Wait()
	for _, input := range inputs {
		_ = input.Close()
	}
	all.Wait()
	if t.Failed() {
		return
	}

	var every []int64
	for i := range outputs {
		given := counts(t, outputs[i].String())
		if i < nodeWorkers && len(given) != documents {
			t.Errorf("worker %d printed %d decisions of %d documents", i, len(given), documents)
		}
		if first, last := given[0], given[len(given)-1]; first-last == int64(len(given)-1) {
			t.Errorf("worker %d counted from %d to %d while nobody else did", i, first, last)
		}
		every = append(every, given...)
	}
	slices.Sort(every)
	slices.Reverse(every)
	for i, count := range every {
		if want := -int64(i); count != want {
			t.Fatalf("of %d counts given, number %d is %d and not %d: one was given twice or skipped", len(every), i+1, count, want)
		}
	}
	keys, err := server.Client().Keys(t.Context(), "*").Result()
	if err != nil || len(keys) != 1 || keys[0] != "priority:{100%25 {acme%7D}:count" {
		t.Errorf("keys %q, %v; want the customer's one", keys, err)
	}
	t.Logf("%d documents counted, %d of them by Node.js", len(every), nodeWorkers*documents)
}

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
