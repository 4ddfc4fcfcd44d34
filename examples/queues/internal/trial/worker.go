package trial

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/docpriority/priority/examples/queues/internal/program"
	"github.com/docpriority/priority/examples/queues/internal/server"
	"github.com/docpriority/priority/internal/redistest"
)

// isWorker, in the environment, has the test's program run as the example's.
const isWorker = "PRIORITY_EXAMPLE_WORKER"

// Main is an example's TestMain: it runs the tests or, in a worker's process, the
// example's main.
func Main(m *testing.M, main func()) {
	if os.Getenv(isWorker) != "" {
		main()
		os.Exit(0)
	}
	code := m.Run()
	if shared.server != nil {
		shared.server.Stop()
	}
	os.Exit(code)
}

var shared struct {
	once   sync.Once
	server *server.Server
	err    error
}

// Shared returns the address of a server for all tests that only need one. It is
// started for the first of them; Main stops it.
func Shared(tb testing.TB, example *program.Example) string {
	tb.Helper()
	shared.once.Do(func() { shared.server, shared.err = example.Start(context.Background()) })
	if missing := (*server.MissingError)(nil); errors.As(shared.err, &missing) {
		redistest.Skip(tb, shared.err.Error())
	}
	if shared.err != nil {
		tb.Fatal(shared.err)
	}
	return shared.server.URL
}

// Worker is a process that runs the example's work command.
type Worker struct {
	tb      testing.TB
	command *exec.Cmd
	log     Log
	ended   chan struct{}
	over    bool // ended on purpose
}

// StartWorker adds a worker process to the fleet. It is killed with the test.
func (tr *Trial) StartWorker() *Worker {
	tr.tb.Helper()
	program, err := os.Executable()
	if err != nil {
		tr.tb.Fatal(err)
	}
	w := &Worker{tb: tr.tb, ended: make(chan struct{})}
	w.command = exec.Command(program, append([]string{"work", "-url", tr.config.URL, "-redis", tr.counts,
		"-name", tr.config.Name}, tr.workerFlags...)...)
	w.command.Env = append(os.Environ(), isWorker+"=1")
	w.command.Stdout, w.command.Stderr = tr.books.file, &w.log
	redistest.StartProgram(tr.tb, w.command)
	go func() {
		_ = w.command.Wait()
		close(w.ended)
	}()
	tr.tb.Cleanup(func() {
		w.Kill()
		if tr.tb.Failed() {
			const most = 4000
			log := w.log.String()
			tr.tb.Logf("a worker's log ends with\n%s", log[max(0, len(log)-most):])
		}
	})
	tr.workers = append(tr.workers, w)
	return w
}

// Kill ends the worker in the middle of what it does.
func (w *Worker) Kill() {
	w.signal(syscall.SIGKILL)
	<-w.ended
	w.over = true
}

// Pause has the worker stand still, as on a machine without time for it, until
// Resume.
func (w *Worker) Pause() { w.signal(syscall.SIGSTOP) }

// Resume lets a paused worker go on.
func (w *Worker) Resume() { w.signal(syscall.SIGCONT) }

// End asks the worker to end, and returns when it has finished what it had in hand.
func (w *Worker) End() {
	w.tb.Helper()
	w.signal(syscall.SIGTERM)
	await(w.tb, "the worker ends", func() bool {
		select {
		case <-w.ended:
			return true
		default:
			return false
		}
	})
	w.over = true
	if state := w.command.ProcessState; !state.Success() {
		w.tb.Errorf("the worker ended with %v", state)
	}
}

func (w *Worker) signal(signal syscall.Signal) {
	if !w.over {
		_ = w.command.Process.Signal(signal)
	}
}
