package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// progress is a bar on a terminal, and nothing anywhere else.
type progress struct {
	terminal io.Writer // nil: no bar
	drawn    time.Time
}

func newProgress(out io.Writer) *progress {
	if file, ok := out.(*os.File); ok {
		if info, err := file.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			return &progress{terminal: out}
		}
	}
	return &progress{}
}

// show draws the bar, at most ten times a second.
func (p *progress) show(what string, done, of int) {
	if p.terminal == nil || done < of && time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	const width = 50
	filled := width * done / of
	fmt.Fprintf(p.terminal, "\r%-6s [%s%s] %3d %%", what,
		strings.Repeat("=", filled), strings.Repeat(" ", width-filled), 100*done/of)
}

// clear removes the bar.
func (p *progress) clear() {
	if p.terminal != nil {
		fmt.Fprint(p.terminal, "\r", strings.Repeat(" ", 78), "\r")
	}
}
