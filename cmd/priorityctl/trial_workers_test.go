package main

import (
	"slices"
	"syscall"
	"time"

	"github.com/docpriority/priority/internal/testing/redistest"
)

// One worker was killed, and another one hangs.
func killed(f *trial) {
	well := f.join("well") // before the others, so that it replaces none
	workers := []*worker{f.startPython("killed"), f.startPython("hangs"), well}
	f.serve(2*time.Millisecond, allEnd, workers...)
	f.send(100*time.Millisecond, well, "acme", "bakery", "chemist")
	f.reported()
	workers[0].signal(syscall.SIGKILL)
	workers[1].signal(syscall.SIGSTOP)
	f.names(append(allow("workers", "done", "poison"), truth{check: "gone", workers: []string{"killed", "hangs"}})...)
	f.workersSay("hangs", "killed")
}

// workersSay checks that workers says something of some workers, and of no others, and that it ends
// as status does.
func (f *trial) workersSay(names ...string) {
	f.Helper()
	status, out, _ := f.ask("workers", "-json")
	var said []string
	for _, w := range objects(f.T, out) {
		if w["why"] != nil {
			said = append(said, w["name"].(string))
		}
	}
	slices.Sort(said)
	if !slices.Equal(said, names) || status != exitFailed {
		f.Errorf("workers, which ends with %d, says something of %q, not of %q:\n%s", status, said, names, out)
	}
}

// Some workers were started with another prefix: what they end is not pending there.
func otherPrefix(f *trial) {
	f.busy()
	var others []*worker
	for _, name := range []string{"w4", "w5"} {
		others = append(others, f.join(name, func(j *joining) { j.Prefix = "prod" }))
	}
	f.serve(2*time.Millisecond, func(*document) fate { return endsElsewhere }, others...)
	f.reported()
	lost := f.awaitForgotten(30)
	f.age(2*time.Minute, lost...)
	f.names(append(allow("stuck"), f.lacksDone([]string{}), truth{check: "prefix", workers: []string{"w4", "w5"}})...)
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
		f.send(100*time.Millisecond, w, customers(60)[10*i:10*i+10]...)
	}
	f.underWay()
	lost := f.awaitForgotten(30)
	f.age(2*time.Minute, lost...)
	f.names(append(allow("stuck"), f.lacksDone([]string{"w5", "w6"}))...)
	n := &numbers{trial: f}
	n.workers() // with what each has submitted and ended
}

// awaitForgotten returns the documents without a Done, once there are some.
func (f *trial) awaitForgotten(some int) (lost []*document) {
	f.Helper()
	redistest.Await(f.T, "documents are forgotten", func() bool {
		lost = f.book.forgotten()
		return len(lost) >= some
	})
	return lost
}

// lacksDone says of how many documents there is no Done, and by whose fault.
func (f *trial) lacksDone(workers []string) truth {
	return truth{check: "done", workers: workers, atLeast: true, documents: func(during period) bounds {
		return f.book.pending(func(d *document) bool { return d.forgotten }, during)
	}}
}

// Workers decide by other policies than most.
func otherPolicies(f *trial) {
	f.busy()
	f.join("odd", func(j *joining) { j.Policy.Loads = []float64{1, 2, 3, 4, 5} })
	f.names(truth{check: "digest", workers: []string{"odd"}})
	f.workersSay("odd")
}

// One worker splits names, and the others do not.
func accounts(f *trial) {
	f.busy()
	f.join("odd", func(j *joining) { j.Accounts = true })
	f.names(truth{check: "digest", workers: []string{"odd"}})
	f.workersSay("odd")
}
