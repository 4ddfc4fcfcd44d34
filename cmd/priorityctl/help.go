package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const helpColumns = 80

// usage makes cobra's template of flags and commands fit a terminal.
var usage = strings.NewReplacer(
	".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpColumns),
	`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
	`"{{.CommandPath}} COMMAND -help" tells more of a command.`,
)

// wrapHelp makes the texts of all commands fit a terminal. Indented lines, such as
// those of commands, stay as they are.
func wrapHelp(command *cobra.Command) {
	var wrapped []string
	paragraph := ""
	end := func() {
		if paragraph != "" {
			wrapped = append(wrapped, insight.Wrap(paragraph, helpColumns))
		}
		paragraph = ""
	}
	for line := range strings.SplitSeq(command.Long, "\n") {
		if line != "" && !strings.HasPrefix(line, " ") {
			paragraph += " " + line
			continue
		}
		end()
		wrapped = append(wrapped, line)
	}
	end()
	command.Long = strings.Join(wrapped, "\n")
	for _, child := range command.Commands() {
		wrapHelp(child)
	}
}
