package redistest

import (
	"os/exec"
	"syscall"
)

// dieWithParent ends a server whose test process is killed before it could.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
