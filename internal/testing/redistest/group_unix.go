//go:build unix

package redistest

import (
	"os/exec"
	"syscall"
)

// haveOwnGroup puts a command and its children into one process group.
func haveOwnGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}

// KillProgram kills what StartProgram has started, and its children.
func KillProgram(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
