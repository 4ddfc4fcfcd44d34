// Package lua has the scripts that Redis runs, and writes a policy's numbers into
// their text. Each file is headed by its keys, arguments and replies and runs as
// it is, with the default policy's numbers. Redis gets the files without their comments,
// because it keeps each text that it is sent.
package lua

import (
	"embed"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/fair"
)

//go:embed *.lua
var files embed.FS

// The scripts, with the default policy's numbers.
var (
	Next   = code("next.lua")
	Submit = code("submit.lua")
	Done   = code("done.lua")
	Peek   = code("peek.lua")
	Reset  = code("reset.lua")

	// Policies and Follow are for package control.
	Policies = code("policies.lua")
	Follow   = code("follow.lua")

	// Report, Members and Reports are for package fleet.
	Report  = code("report.lua")
	Members = code("members.lua")
	Reports = code("reports.lua")
)

func code(file string) string {
	text, err := files.ReadFile(file)
	if err != nil {
		panic(err) // it is embedded
	}
	return withoutComments(string(text))
}

// withoutComments returns a text without the lines that are empty or only a comment, except
// those that begin and end a block.
func withoutComments(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if word := strings.TrimSpace(line); word != "" && (!strings.HasPrefix(word, "--") || isMark(word)) {
			lines.WriteString(line)
		}
	}
	return lines.String()
}

func isMark(line string) bool {
	return strings.HasPrefix(line, "-- begin ") || strings.HasPrefix(line, "-- end ")
}

// Numbers are a policy and a lease for a script, with every field filled in.
type Numbers struct {
	Thresholds     []int64
	Interval       time.Duration
	SinceLastReset bool
	Lease          time.Duration // the longest
	Loads          []float64
	Turns          int
	Levels         int // of the queue
	InOrder        bool
}

// With returns a script's text with the numbers. As constants they cost Redis less than as
// arguments.
func With(text string, n Numbers) string {
	for name, lines := range n.blocks() {
		text = replaceBlock(text, name, lines)
	}
	return text
}

// blocks are the lines of the blocks that have numbers.
func (n Numbers) blocks() map[string]string {
	loads := make([]int64, len(n.Loads))
	for i, load := range n.Loads {
		loads[i] = fair.Millionths(load)
	}
	return map[string]string{
		"policy": fmt.Sprintf("local interval = '%d'\nlocal since_last_reset = %t\n", n.Interval.Milliseconds(), n.SinceLastReset),
		"lease":  fmt.Sprintf("local longest_lease = %d\n", n.Lease.Milliseconds()),
		"order":  fmt.Sprintf("local in_order = %t\n", n.InOrder),
		"queue":  fmt.Sprintf("local queue_levels = %d\n", n.Levels),
		"levels": levels(n.Thresholds, "count < %d", "count >= %d"),
		"loads":  levels(loads, "load > %d", "load <= %d") + turns(len(loads)+1, fair.Turns(n.Turns)),
	}
}

// replaceBlock replaces the lines between each "-- begin name" and "-- end name", in a
// text that has them.
func replaceBlock(text, name, lines string) string {
	begin, end := "-- begin "+name+"\n", "-- end "+name+"\n"
	before, rest, found := strings.Cut(text, begin)
	if !found {
		return text
	}
	_, after, _ := strings.Cut(rest, end)
	return before + begin + lines + end + replaceBlock(after, name, lines)
}

// levels returns the comparisons that find a level: beyond the last bound, or within one
// of them. The last level and the first ones, which most documents have, come first.
func levels(bounds []int64, beyond, within string) string {
	var lines strings.Builder
	lines.WriteString("local level = 1\n")
	n := len(bounds)
	if n == 0 {
		return lines.String()
	}
	fmt.Fprintf(&lines, "if "+beyond+" then level = %d\n", bounds[n-1], n+1)
	for i, bound := range bounds {
		fmt.Fprintf(&lines, "elseif "+within+" then level = %d\n", bound, i+1)
	}
	lines.WriteString("end\n")
	return lines.String()
}

// turns returns the comparisons that find a document's turn in the levels behind the last
// load, whose level is last.
func turns(last int, begins []int64) string {
	var lines strings.Builder
	fmt.Fprintf(&lines, "local flood = level == %d -- beyond the last load: take turns\n", last)
	for i, begin := range slices.Backward(begins) {
		word := "elseif"
		if i == len(begins)-1 {
			word = "if not flood then -- its level stands\nelseif"
		}
		fmt.Fprintf(&lines, "%s pending_flood >= %d then level = %d\n", word, begin, last+1+i)
	}
	if len(begins) > 0 {
		lines.WriteString("end\n")
	}
	return lines.String()
}
