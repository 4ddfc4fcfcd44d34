package redistest

import (
	"os/exec"
	"testing"
)

// StartProgram starts a command that ends with the test at the latest.
func StartProgram(tb testing.TB, cmd *exec.Cmd) {
	tb.Helper()
	dieWithParent(cmd)
	if err := cmd.Start(); err != nil {
		tb.Fatalf("start %s: %v", cmd.Path, err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
