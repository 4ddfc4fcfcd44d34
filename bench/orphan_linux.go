package main

import (
	"os/exec"
	"syscall"
)

// endWithParent ends a server whose parent is killed before it could. A terminal's
// interrupt reaches the parent alone, which then ends its servers.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
