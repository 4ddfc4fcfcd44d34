package main

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// doubleDashes turns -flag into --flag wherever some command has a flag of that name, so
// that both spellings work, as in Go's own tools. Other arguments, such as -n, -5, a
// customer, or -, stay as they are, and so does all that follows --.
func doubleDashes(root *cobra.Command, args []string) []string {
	names := map[string]bool{"help": true, "version": true}
	collect(root, names)
	normal := make([]string, len(args))
	for i, arg := range args {
		if arg == "--" {
			copy(normal[i:], args[i:])
			break
		}
		normal[i] = arg
		name, _, _ := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && len(name) > 1 && names[name] {
			normal[i] = "-" + arg
		}
	}
	return normal
}

func collect(command *cobra.Command, names map[string]bool) {
	command.Flags().VisitAll(func(flag *pflag.Flag) { names[flag.Name] = true })
	for _, child := range command.Commands() {
		collect(child, names)
	}
}
