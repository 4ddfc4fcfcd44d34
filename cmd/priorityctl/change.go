package main

import (
	"cmp"
	"fmt"
	"io"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/control"
)

// changeFlags say who makes a change, and why.
type changeFlags struct{ by, why string }

func (f *changeFlags) register(command *cobra.Command) {
	command.Flags().StringVar(&f.why, "why", f.why, "why, for those who ask later: the log keeps it")
	command.Flags().StringVar(&f.by, "by", "", "who does it (default: the user of this system)")
}

// check makes sure that there is a reason before anything is asked.
func (f *changeFlags) check(*cobra.Command) error {
	if strings.TrimSpace(f.why) == "" {
		return usageError("-why is missing: say why, for those who ask later")
	}
	return nil
}

// change returns what the log records.
func (f *changeFlags) change(c *call) control.Change {
	name := environmentOf(c.command).getenv("USER")
	if current, err := user.Current(); err == nil {
		name = cmp.Or(current.Username, name)
	}
	return control.Change{By: cmp.Or(f.by, name, "unknown"), Why: f.why}
}

// indented writes a text below a line, in as many lines as it needs.
func indented(out io.Writer, columns int, text string) {
	for line := range strings.SplitSeq(insight.Wrap(text, 79-columns), "\n") {
		fmt.Fprintf(out, "%*s%s\n", columns, "", line)
	}
}
