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

var changeHelp = `The log records who made the change (-by, by default the user of this system) and
-why. If somebody else changes the same item at the same time, nothing is
changed, the exit status is 1, and the message says who it was. -replaces
protects from changes since an earlier look: give the version that you saw, or 0
if there was none. Workers follow within ` +
	insight.Span(control.FollowedWithin) + `. Queued documents keep their level.`

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

// change returns what the log records. The version is the present item's.
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

// versionOf returns the version of an item, 0 if there is no item.
func versionOf[T any](item *control.Item[T]) int64 {
	if item == nil {
		return 0
	}
	return item.Version
}

// indented writes a text below a line of a table, in as many lines as it needs.
func indented(out io.Writer, columns int, text string) {
	for line := range strings.SplitSeq(insight.Wrap(text, 79-columns), "\n") {
		fmt.Fprintf(out, "%*s%s\n", columns, "", line)
	}
}
