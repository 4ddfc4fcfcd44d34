package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// flooded is a fleet in which each level has customers, and some are very busy.
func flooded(levels int) insight.Snapshot {
	s := insight.Snapshot{At: time.Now()}
	for level := 1; level <= levels; level++ {
		s.Levels = append(s.Levels, insight.LevelLoad{Level: priority.Level(level), Customers: 1, Documents: int64(10 * level)})
	}
	for i := range 10 {
		s.Busiest = append(s.Busiest, insight.Busy{Name: insight.NameOf(fmt.Sprint("busy-", i)), State: insight.State{NextLevel: priority.Level(levels)}, Documents: int64(1000 - i)})
	}
	return s
}

// However small the terminal, the last level and the busiest customer are on it, and
// no document is left out of the levels.
func TestTopShowsTheLastLevelAndTheBusiestOnEveryTerminal(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{1, 2, 3, 9, 40} {
		for height := 7; height <= 60; height++ {
			d := drawing{title: "title", status: "status", last: flooded(levels), live: true, width: 40, height: height}
			text := ansi.Strip(d.text())
			lines := strings.Split(text, "\n")
			if len(lines) != height || lines[height-1] != "q: quit" {
				t.Fatalf("%d levels, height %d: %d lines\n%s", levels, height, len(lines), text)
			}
			fitsIn(t, 40, text)
			var documents, last, read int
			for _, line := range lines[:height-1] {
				var name string
				var customers, of int
				if n, _ := fmt.Sscan(strings.ReplaceAll(line, ",", ""), &name, &customers, &of); n == 3 {
					documents += of
					_, to, joined := strings.Cut(name, "–")
					if !joined {
						to = name
					}
					_, _ = fmt.Sscan(to, &last)
					read++
				}
			}
			if documents != 10*levels*(levels+1)/2 || last != levels {
				t.Errorf("%d levels, height %d: %d documents in %d lines, the last level is %d\n%s", levels, height, documents, read, last, text)
			}
			if !strings.Contains(text, "busy-0\n") {
				t.Errorf("%d levels, height %d: nobody is busy\n%s", levels, height, text)
			}
		}
	}
}

// A terminal of 40 columns and 10 lines has two lines of levels, and the three busiest.
func TestTopOnASmallTerminal(t *testing.T) {
	t.Parallel()
	d := drawing{title: "redis://localhost:6379", status: "status", last: flooded(9), live: true, width: 40, height: 10}
	const want = `redis://localhost:6379
status
LEVEL  CUSTOMERS  DOCUMENTS
  1–8          8        360  ██████████
    9          1         90  ██
NEXT       COUNT  CUSTOMER
   9           -  busy-0
   9           -  busy-1
   9           -  busy-2
q: quit`
	if got := ansi.Strip(d.text()); got != want {
		t.Errorf("got\n%s", got)
	}
	for size := range 60 { // nothing is too small
		d.width, d.height = size%8+1, size/8+1
		_ = d.text()
	}
}
