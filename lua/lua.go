// Package lua has the scripts that Redis runs, and writes a policy's numbers into
// their text. Each file is headed by its keys, arguments and replies and runs as
// it is, with the default policy's numbers.
package lua

import (
	_ "embed" // the scripts
	"fmt"
	"strings"
	"time"
)

// The scripts' texts, as printed in their files.
var (
	//go:embed next.lua
	Next string
	//go:embed submit.lua
	Submit string
	//go:embed done.lua
	Done string
	//go:embed peek.lua
	Peek string
	//go:embed reset.lua
	Reset string

	// That of package control.
	//go:embed change.lua
	Change string
)

// Numbers are what a policy and a lease are to a script.
type Numbers struct {
	Thresholds     []int64
	Interval       time.Duration
	SinceLastReset bool
	Lease          time.Duration // the longest
	Scale          Scale
}

// Scale is that of package internal/fair.
type Scale struct {
	First  int64
	Levels int
}

// With returns a script's text with the numbers in it. As constants they cost
// Redis less than as arguments.
func With(text string, n Numbers) string {
	text = replaceBlock(text, "policy", fmt.Sprintf(
		"local interval = '%d'\nlocal since_last_reset = %t\n", n.Interval.Milliseconds(), n.SinceLastReset))
	text = replaceBlock(text, "lease", fmt.Sprintf("local longest_lease = %d\n", n.Lease.Milliseconds()))
	text = replaceBlock(text, "scale", fmt.Sprintf("local first = %d\nlocal levels = %d\n", n.Scale.First, n.Scale.Levels))
	var levels strings.Builder
	levels.WriteString("local level = 1\n")
	writeLevels(&levels, "", n.Thresholds, 1)
	return replaceBlock(text, "levels", levels.String())
}

// replaceBlock replaces the lines between "-- begin name" and "-- end name", in a
// text that has them.
func replaceBlock(text, name, lines string) string {
	begin, end := "-- begin "+name+"\n", "-- end "+name+"\n"
	before, rest, found := strings.Cut(text, begin)
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, end)
	return before + begin + lines + end + after
}

// writeLevels writes the comparisons that find a count's level, where best is the
// level of a count that is below none of the thresholds. Many thresholds are
// halved first, so that a long table costs few comparisons.
func writeLevels(w *strings.Builder, indent string, thresholds []int64, best int) {
	const chain = 8
	if len(thresholds) <= chain {
		writeChain(w, indent, thresholds, best)
		return
	}
	half := len(thresholds) / 2
	below := best + half + 1
	fmt.Fprintf(w, "%sif count < %d then\n%s  level = %d\n", indent, thresholds[half], indent, below)
	writeLevels(w, indent+"  ", thresholds[half+1:], below)
	fmt.Fprintf(w, "%selse\n", indent)
	writeLevels(w, indent+"  ", thresholds[:half], best)
	fmt.Fprintf(w, "%send\n", indent)
}

// writeChain writes the comparisons for few thresholds. The first and the last
// level, which most documents have, come first.
func writeChain(w *strings.Builder, indent string, thresholds []int64, best int) {
	if len(thresholds) == 0 {
		return
	}
	fmt.Fprintf(w, "%sif count < %d then\n", indent, thresholds[0])
	keyword, end := "if", ""
	for i := len(thresholds) - 1; i > 0; i-- {
		fmt.Fprintf(w, "%s  %s count < %d then level = %d\n", indent, keyword, thresholds[i], best+i+1)
		keyword, end = "elseif", indent+"  end\n"
	}
	if end != "" {
		fmt.Fprintf(w, "%s  else ", indent)
	}
	fmt.Fprintf(w, "level = %d\n%s%send\n", best+1, end, indent)
}
