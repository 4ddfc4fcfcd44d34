package redistest

import (
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
)

// StartProgram starts a command that ends with the test at the latest, as do its
// children, which are in its process group. wait waits for its end, any number of times.
func StartProgram(tb testing.TB, cmd *exec.Cmd) (wait func() error) {
	tb.Helper()
	dieWithParent(cmd)
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = 5 * time.Second // for a child that left the group with its output
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	wait = sync.OnceValue(cmd.Wait)
	tb.Cleanup(func() {
		KillProgram(cmd)
		_ = wait()
	})
	return wait
}

// KillProgram kills what StartProgram has started, and its children.
func KillProgram(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
