package main

import (
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryHelpFitsATerminal(t *testing.T) {
	t.Parallel()
	var check func(command *cobra.Command, path ...string)
	check = func(command *cobra.Command, path ...string) {
		fits(t, alone(t).told("help", path...))
		for _, child := range command.Commands() {
			if child.Name() != "completion" { // whose text is of cobra
				check(child, append(path, child.Name())...)
			}
		}
	}
	check(newRoot())
}
