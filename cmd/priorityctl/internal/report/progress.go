package report

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// Progress is a bar on a terminal, and nothing anywhere else. It is safe for
// concurrent use.
type Progress struct {
	terminal io.Writer // nil: no bar

	mu      sync.Mutex
	started time.Time
	drawn   time.Time
}

// NewProgress returns a bar, if out is a terminal.
func NewProgress(out io.Writer) *Progress {
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return &Progress{terminal: out, started: time.Now()}
	}
	return &Progress{}
}

// Show draws the bar, at most ten times a second, and not in the first second:
// what is short needs none.
func (p *Progress) Show(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal == nil || time.Since(p.started) < time.Second || time.Since(p.drawn) < 100*time.Millisecond {
		return
	}
	p.drawn = time.Now()
	const cells = 50
	filled := cells * done / of
	fmt.Fprintf(p.terminal, "\r[%s%s] %3d %%", strings.Repeat("=", filled), strings.Repeat(" ", cells-filled), 100*done/of)
}

// Clear removes the bar.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal != nil && !p.drawn.IsZero() {
		fmt.Fprint(p.terminal, "\r", strings.Repeat(" ", width-1), "\r")
	}
}
