package main

import (
	"strings"
	"testing"
	"time"
)

func TestABarIsDrawnOnATerminalOnly(t *testing.T) {
	var terminal strings.Builder
	bar := &progress{terminal: &terminal, started: time.Now().Add(-time.Hour)}
	bar.show(1, 4)
	bar.show(2, 4) // too early to be drawn
	bar.clear()
	want := "\r[" + strings.Repeat("=", 12) + strings.Repeat(" ", 38) + "]  25 %\r" + strings.Repeat(" ", 79) + "\r"
	if terminal.String() != want {
		t.Errorf("got %q, want %q", terminal.String(), want)
	}
	var file strings.Builder
	none := newProgress(&file)
	none.show(1, 4)
	none.clear()
	short := &progress{terminal: &file, started: time.Now()}
	short.show(1, 4)
	short.clear()
	if file.Len() > 0 {
		t.Errorf("not on a terminal, or too short for a bar: %q", file.String())
	}
}
