package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

const helpColumns = 80

// showHelp prints a command's text and its flags, with one dash each, in the width of a
// terminal. The root's text names the commands.
func showHelp(command *cobra.Command, _ []string) {
	var text string
	for paragraph := range strings.SplitSeq(command.Long, "\n\n") {
		if !strings.HasPrefix(paragraph, " ") { // else its lines are commands
			paragraph = insight.Wrap(paragraph, helpColumns)
		}
		text += paragraph + "\n\n"
	}
	text = strings.TrimSuffix(text, "\n")
	if command.HasParent() {
		text += "\n" + command.UseLine() + "\n"
		flags := command.LocalFlags()
		flags.SortFlags = false
		for line := range strings.Lines(flags.FlagUsagesWrapped(helpColumns)) {
			line = strings.Replace(line, "      --", "  -", 1)
			text += strings.Replace(line, "  -h, --", "  -", 1)
		}
	}
	fmt.Fprint(command.OutOrStdout(), text)
}

// group returns a command that only has others.
func group(use, long string, commands ...*cobra.Command) *cobra.Command {
	command := &cobra.Command{
		Use: use, Long: long,
		RunE: func(command *cobra.Command, _ []string) error { return command.Help() },
	}
	command.AddCommand(commands...)
	return command
}
