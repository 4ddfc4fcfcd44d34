package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a server whose test process was killed before ending it.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
