//go:build !unix

package redistest

import "os/exec"

func haveOwnGroup(*exec.Cmd) {}

// KillProgram kills what StartProgram has started.
func KillProgram(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
}
