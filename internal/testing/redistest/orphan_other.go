//go:build !linux

package redistest

import (
	"os/exec"
	"syscall"
)

func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = new(syscall.SysProcAttr)
}
