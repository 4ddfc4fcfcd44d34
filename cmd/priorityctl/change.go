package main

import (
	"cmp"
	"fmt"
	"io"
	"os/user"
	"strings"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/insight"
	"github.com/spf13/cobra"
)

var changeHelp = `It is written down who did it (-by, else the user of this system) and -why;
see log. A change replaces what it has shown: where somebody else changes the
same in between, nothing is changed, the exit status is 1, and the message
says who it was. -replaces makes that hold from an earlier look on: give the
version that you saw, 0 where there was none. Workers follow within ` + insight.Span(control.FollowedWithin) + `.
Documents that are queued keep the level that they have.`

// changeFlags say who makes a change, why, and in place of what.
type changeFlags struct {
	by, why  string
	replaces int64
}

func (f *changeFlags) register(command *cobra.Command) {
	command.Flags().StringVar(&f.by, "by", "", "who does it (default: the user of this system)")
	command.Flags().StringVar(&f.why, "why", "", "why, for those who ask later")
	command.Flags().Int64Var(&f.replaces, "replaces", 0, "change it only if this is its version; 0: if there is none (default: the version that is there now)")
}

// change returns what is written down. The version is that of what is there now.
func (f *changeFlags) change(command *cobra.Command, version int64) control.Change {
	if command.Flags().Changed("replaces") {
		version = f.replaces
	}
	return control.Change{By: f.author(command), Why: f.why, Replaces: version}
}

// checkWhy makes sure that there is a reason before anything is asked.
func (f *changeFlags) checkWhy() error {
	if strings.TrimSpace(f.why) == "" {
		return usageError("-why is missing: say why, for those who ask later")
	}
	return nil
}

func (f *changeFlags) author(command *cobra.Command) string {
	if f.by != "" {
		return f.by
	}
	name := environmentOf(command).getenv("USER")
	if current, err := user.Current(); err == nil {
		name = cmp.Or(current.Username, name)
	}
	return cmp.Or(name, "unknown")
}

// versionOf is the version of an item, 0 where there is none.
func versionOf[T any](item *control.Item[T]) int64 {
	if item == nil {
		return 0
	}
	return item.Version
}

// indented writes what follows a line of a table, in as many lines as it needs.
func indented(out io.Writer, columns int, text string) {
	for line := range strings.SplitSeq(insight.Wrap(text, 79-columns), "\n") {
		fmt.Fprintf(out, "%*s%s\n", columns, "", line)
	}
}
