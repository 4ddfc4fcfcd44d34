//go:build unix

package redistest

import (
	"os/exec"
	"syscall"
)

// haveOwnGroup has a command and what it starts be one group of processes.
func haveOwnGroup(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = new(syscall.SysProcAttr)
	}
	cmd.SysProcAttr.Setpgid = true
}

// KillProgram ends at once what StartProgram has started, and what that has started.
func KillProgram(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}
