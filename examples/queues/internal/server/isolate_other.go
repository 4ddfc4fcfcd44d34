//go:build !linux

package server

import (
	"os/exec"
	"syscall"
)

func isolate(*exec.Cmd, syscall.Signal) {}

func signalGroup(command *exec.Cmd, signal syscall.Signal) {
	_ = command.Process.Signal(signal)
}

func runAs(*exec.Cmd, int, int) {}
