package trial

import (
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"

	"github.com/docpriority/priority/internal/redistest"
)

// worker is a process that runs the example's work command.
type worker struct {
	t       *testing.T
	command *exec.Cmd
	wait    func() error
	log     Log
	over    bool // ended on purpose
}

// startWorker adds a worker process to the fleet, with further flags. It is killed with the test.
func (tr *trial) startWorker(more ...string) *worker {
	tr.t.Helper()
	executable, err := os.Executable()
	if err != nil {
		tr.t.Fatal(err)
	}
	w := &worker{t: tr.t}
	w.command = exec.Command(executable, slices.Concat([]string{"work", "-url", tr.config.URL, "-redis", tr.counts,
		"-name", tr.config.Name, "-backoff", "100ms,200ms"}, tr.subject.flags(tr.t, tr.config.Name), more)...)
	w.command.Env = append(os.Environ(), isWorker+"=1")
	w.command.Stdout, w.command.Stderr = tr.books.file, &w.log
	tr.t.Cleanup(func() {
		if tr.t.Failed() {
			const most = 4000
			log := w.log.String()
			tr.t.Logf("a worker's log ends with\n%s", log[max(0, len(log)-most):])
		}
	})
	w.wait = redistest.StartProgram(tr.t, w.command)
	tr.workers = append(tr.workers, w)
	return w
}

// kill ends the worker in the middle of what it does.
func (w *worker) kill() {
	w.signal(syscall.SIGKILL)
	_ = w.wait()
	w.over = true
}

// end asks the worker to end, and returns when it has finished what it had in hand.
func (w *worker) end() {
	w.t.Helper()
	w.signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- w.wait() }()
	Await(w.t, "the worker ends", func() bool { return len(ended) > 0 })
	w.over = true
	if err := <-ended; err != nil {
		w.t.Errorf("the worker ended with %v", err)
	}
}

// signal sends a signal, SIGSTOP among them: the worker stands still then, as on a machine
// without time for it, until SIGCONT.
func (w *worker) signal(signal syscall.Signal) {
	if !w.over {
		_ = w.command.Process.Signal(signal)
	}
}
