package server

import (
	"os/exec"
	"syscall"
)

// isolate gives the process a group of its own, so that an interrupt at the
// terminal is this program's to handle, and has the kernel send it the signal
// when this program dies before it could.
func isolate(command *exec.Cmd, quit syscall.Signal) {
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	command.SysProcAttr.Pdeathsig = quit
}

func signalGroup(command *exec.Cmd, signal syscall.Signal) {
	_ = syscall.Kill(-command.Process.Pid, signal)
}

// runAs has the process run as another user.
func runAs(command *exec.Cmd, uid, gid int) {
	command.SysProcAttr = &syscall.SysProcAttr{
		Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)},
	}
}
