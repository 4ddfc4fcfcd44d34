package main

import (
	_ "embed"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Scripts rely on commands and flags: from v1.0.0 on, none in this file goes or changes.
//
//go:embed testdata/flags.txt
var flags string

func TestCommandsAndFlagsStay(t *testing.T) {
	t.Parallel()
	var found strings.Builder
	var list func(command *cobra.Command)
	list = func(command *cobra.Command) {
		found.WriteString(command.CommandPath())
		command.LocalFlags().VisitAll(func(flag *pflag.Flag) {
			found.WriteString(" -" + flag.Name + "=" + flag.Value.Type())
		})
		found.WriteString("\n")
		for _, child := range command.Commands() {
			if child.Name() != "completion" && child.Name() != "help" { // which are cobra's
				list(child)
			}
		}
	}
	list(newRoot())
	if found.String() != flags {
		t.Errorf("the commands and their flags are\n%s", found.String())
	}
}
