package main

import (
	"fmt"
	"syscall"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// One worker was killed, and another one hangs.
func killed(f *trial) {
	well := f.join("well") // before the others, so that it replaces none
	workers := []*worker{f.startGo("killed"), f.startGo("hangs"), well}
	f.serve(2*time.Millisecond, allEnd, workers...)
	f.send(100*time.Millisecond, well, "acme", "bakery", "chemist")
	f.reported()
	workers[0].signal(syscall.SIGKILL)
	workers[1].signal(syscall.SIGSTOP)
	f.names(append(allow("workers", "done", "poison"), truth{check: "gone", workers: []string{"killed", "hangs"}})...)
	f.workersSay(map[string]bool{"killed": false, "hangs": false, "well": true})
}

func (w *worker) signal(signal syscall.Signal) { _ = w.caller.(*process).Process.Signal(signal) }

// workersSay checks that workers marks the right ones, and ends as status does.
func (f *trial) workersSay(follows map[string]bool) {
	f.Helper()
	status, out, _ := f.ask("workers", "-json")
	for _, w := range objects(f.T, out) {
		if want, ok := follows[w["name"].(string)]; !ok || w["follows"] != want {
			f.Errorf("workers has %v", w)
		}
	}
	if len(objects(f.T, out)) != len(follows) || status != exitFailed {
		f.Errorf("workers has status %d: %s", status, out)
	}
}

// Some workers were started with another prefix.
func otherPrefix(f *trial) {
	f.busy()
	other := func(j *joining) { j.Prefix = "prod" }
	f.join("w4", other)
	f.join("w5", other)
	f.reported()
	f.names(truth{check: "prefix", workers: []string{"w4", "w5"}})
}

// The operator has mistyped the prefix.
func typo(f *trial) {
	f.busy()
	f.flags = append(f.flags, "-prefix", "typo")
	f.names(truth{check: "workers"}, truth{check: "prefix", workers: []string{"w1", "w2", "w3"}})
}

// Two of six workers send no Done.
func noDone(f *trial) {
	workers := f.joinAll("w1", "w2", "w3", "w4", "w5", "w6")
	f.serve(2*time.Millisecond, allEnd, workers[:4]...)
	f.serve(2*time.Millisecond, func(*document) fate { return forgotten }, workers[4:]...)
	for i, w := range workers {
		f.send(100*time.Millisecond, w, fmt.Sprint("customer-", i), "acme")
	}
	f.reported()
	var lost []*document
	redistest.Await(f.T, "thirty documents are forgotten", func() bool {
		lost = f.book.forgotten()
		return len(lost) >= 30
	})
	f.age(2*time.Minute, lost...)
	f.names(append(allow("stuck", "waits"), truth{check: "done", workers: []string{"w5", "w6"}, atLeast: true, documents: func(during span) bounds {
		return f.book.pending(func(d *document) bool { return d.forgotten }, during)
	}})...)
}

// Workers decide by other policies than most.
func otherPolicies(f *trial) {
	f.busy()
	f.join("odd", func(j *joining) { j.Policy.Loads = []float64{1, 2, 3, 4, 5} })
	f.names(truth{check: "digest", workers: []string{"odd"}})
	f.workersSay(map[string]bool{"odd": false, "w1": true, "w2": true, "w3": true})
}

// One worker splits names, and the others do not.
func accounts(f *trial) {
	f.busy()
	f.join("odd", func(j *joining) { j.Accounts = true })
	f.names(truth{check: "digest", workers: []string{"odd"}})
	f.workersSay(map[string]bool{"odd": false, "w1": true, "w2": true, "w3": true})
}
