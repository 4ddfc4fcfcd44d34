package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// progress is a bar on a terminal, and nothing anywhere else.
type progress struct {
	terminal       io.Writer // nil: no bar
	started, drawn time.Time
}

// newProgress returns a bar, if out is a terminal.
func newProgress(out io.Writer) *progress {
	if isTerminal(out) {
		return &progress{terminal: out, started: time.Now()}
	}
	return &progress{}
}

// show draws the bar, at most ten times a second, and not in the first second:
// short work needs no bar.
func (p *progress) show(percent int) {
	if p.terminal == nil || time.Since(p.started) < time.Second || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	filled := percent / 2
	fmt.Fprintf(p.terminal, "\r[%s%s] %3d %%", strings.Repeat("=", filled), strings.Repeat(" ", 50-filled), percent)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.terminal != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.terminal, "\r", strings.Repeat(" ", helpColumns-1), "\r")
	}
}
