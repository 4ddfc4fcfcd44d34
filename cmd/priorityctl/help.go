package main

import (
	"fmt"
	"strings"

	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

const helpColumns = 80

// usage fits cobra's template of flags and commands into a terminal.
var usage = strings.NewReplacer(
	".FlagUsages ", fmt.Sprintf(".FlagUsagesWrapped %d ", helpColumns),
	`Use "{{.CommandPath}} [command] --help" for more information about a command.`,
	`"{{.CommandPath}} COMMAND -help" says more about a command.`,
)

// wrapHelp fits the texts of all commands into a terminal. Indented lines, such as
// examples, stay as they are.
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
