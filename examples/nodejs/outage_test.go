package nodejs_test

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/docpriority/priority/internal/redistest"
)

// An outage is how a server, or what is between it and the worker, is away.
type outage struct {
	proxied    bool // the worker calls the proxy
	begin, end func(*redistest.Server, *redistest.Proxy)
}

func fault(fault redistest.Fault) outage {
	return outage{
		proxied: true,
		begin:   func(_ *redistest.Server, proxy *redistest.Proxy) { proxy.Set(fault) },
		end:     func(_ *redistest.Server, proxy *redistest.Proxy) { proxy.Set(redistest.None) },
	}
}

var outages = map[string]outage{
	"killed and restarted": {
		begin: func(server *redistest.Server, _ *redistest.Proxy) { server.Kill() },
		end:   func(server *redistest.Server, _ *redistest.Proxy) { server.Restart() },
	},
	"stopped and continued": {
		begin: func(server *redistest.Server, _ *redistest.Proxy) { server.Signal(syscall.SIGSTOP) },
		end:   func(server *redistest.Server, _ *redistest.Proxy) { server.Signal(syscall.SIGCONT) },
	},
	"connections cut before an answer": fault(redistest.Cut),
	"connections cut in an answer":     fault(redistest.Truncate),
	"answers swallowed":                fault(redistest.Swallow),
	"a silent network":                 fault(redistest.Blackhole),
}

// During an outage of five seconds the worker goes on: each document gets a level, within
// the timeout. Afterwards it counts again by itself. Every document is counted once or, as
// the worker has said, not or perhaps not.
func TestNodeOutlivesAnOutage(t *testing.T) {
	for name, outage := range outages {
		for _, client := range clients {
			t.Run(name+", "+client, func(t *testing.T) {
				t.Parallel()
				outlive(t, outage, client)
			})
		}
	}
}

func outlive(t *testing.T, outage outage, client string) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	proxy := redistest.StartProxy(t, server.Addr)
	address := server.Addr
	if outage.proxied {
		address = proxy.Addr
	}
	w := startWorker(t, address, client)
	w.awaitMore(t, "decisions", `"count"`, 20)
	began := time.Now()
	outage.begin(server, proxy)
	w.awaitMore(t, "documents without a count", `"degraded"`, 20) // each in time
	redistest.Await(t, "the outage has lasted for five seconds", func() bool { return time.Since(began) > 5*time.Second })
	w.awaitMore(t, "documents without a count, still", `"degraded"`, 1)
	outage.end(server, proxy)
	w.awaitMore(t, "decisions again", `"count"`, 20)
	w.end(t)
	w.audit(t, server)
}

// Nothing can have been sent to a server that is not there.
func TestNodeStartsDuringAnOutage(t *testing.T) {
	for _, client := range clients {
		t.Run(client, func(t *testing.T) { startDuringAnOutage(t, client) })
	}
}

func startDuringAnOutage(t *testing.T, client string) {
	server := redistest.Start(t)
	server.Kill()
	w := startWorker(t, server.Addr, client)
	w.awaitMore(t, "documents without a count", `"degraded"`, 3)
	why := "worker: NotCounted: docpriority: next priority:{acme}:count: no connection in time: connect ECONNREFUSED " + server.Addr + "\n"
	redistest.Await(t, why, func() bool { return strings.Count(w.stderr.String(), why) >= 3 })
	server.Restart()
	w.awaitMore(t, "decisions", `"count"`, 20)
	w.end(t)
	w.audit(t, server)
}

// workerProcess is a worker that counts until it is ended.
type workerProcess struct {
	command        *exec.Cmd
	stdout, stderr *output
}

func startWorker(t *testing.T, address, client string) *workerProcess {
	t.Helper()
	command := node(t, "worker.mjs", "--redis", address, "--documents", "1000000", "--pause", "2", "--client", client)
	w := &workerProcess{command: command, stdout: new(output), stderr: new(output)}
	command.Stdout, command.Stderr = w.stdout, w.stderr
	redistest.StartProgram(t, command)
	return w
}

// awaitMore awaits that the worker prints so many more lines of a kind.
func (w *workerProcess) awaitMore(t *testing.T, what, kind string, lines int) {
	t.Helper()
	before := strings.Count(w.stdout.String(), kind)
	redistest.Await(t, what, func() bool { return strings.Count(w.stdout.String(), kind) >= before+lines })
}

// end asks the worker to end.
func (w *workerProcess) end(t *testing.T) {
	t.Helper()
	if err := w.command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	exit := new(exec.ExitError)
	if err := w.command.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("the worker ended with %v\n%s", err, w.stderr)
	}
}

// audit compares what the worker said with the server's count.
func (w *workerProcess) audit(t *testing.T, server *redistest.Server) {
	t.Helper()
	stdout, stderr := w.stdout.String(), w.stderr.String()
	not, unknown := strings.Count(stderr, "worker: NotCounted: "), strings.Count(stderr, "worker: OutcomeUnknown: ")
	if !strings.HasSuffix(stderr, fmt.Sprintf("\nworker: %d documents were not counted, and %d perhaps\n", not, unknown)) {
		t.Errorf("the worker's sum is not %d and %d:\n%s", not, unknown, stderr)
	}
	if degraded := strings.Count(stdout, `"degraded":true`); degraded != not+unknown {
		t.Errorf("%d documents have no count, of %d and %d", degraded, not, unknown)
	}
	given := counts(t, stdout)
	if !slices.IsSortedFunc(given, func(a, b int64) int { return int(b - a) }) || len(slices.Compact(slices.Clone(given))) != len(given) {
		t.Errorf("a count was given twice")
	}
	count, err := server.Client().Get(t.Context(), "priority:{acme}:count").Int64()
	if err != nil {
		t.Fatal(err)
	}
	if counted := int(1 - count); counted < len(given) || counted > len(given)+unknown {
		t.Errorf("%d documents are counted; %d were answered, and of %d it is not known", counted, len(given), unknown)
	}
}

// output is what a running process has written so far.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(text []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(text)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}
