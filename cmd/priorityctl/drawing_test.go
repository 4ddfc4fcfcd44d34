package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/insight"
)

// flooded is a fleet in which each level has documents, and some customers are very busy.
func flooded(levels int) look {
	s := insight.Snapshot{Workers: 2}
	for level := 1; level <= levels; level++ {
		s.Levels = append(s.Levels, insight.LevelLoad{Level: priority.Level(level), ByLoad: int64(10 * level), Done: 1, MedianMS: 1500, P95MS: 90_000, OldestMS: 1000})
		s.ByLoad += int64(10 * level)
	}
	for i := range 10 {
		state := insight.State{NextLevel: priority.Level(levels)}
		s.Busiest = append(s.Busiest, insight.Busy{Name: insight.NameOf(fmt.Sprint("busy-", i)), State: &state, Documents: int64(1000 - i)})
	}
	return look{title: "title", snapshot: &s}
}

// However small the terminal, the last level and the busiest customer are on it, and
// no document is left out of the levels.
func TestTopShowsTheLastLevelAndTheBusiestOnEveryTerminal(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{1, 2, 3, 9, 40} {
		for height := 7; height <= 60; height++ {
			d := drawing{look: flooded(levels), live: true, width: 40, height: height, footer: "q: quit"}
			text := ansi.Strip(d.text())
			lines := strings.Split(text, "\n")
			if len(lines) != height || lines[height-1] != "q: quit" {
				t.Fatalf("%d levels, height %d: %d lines\n%s", levels, height, len(lines), text)
			}
			fitsIn(t, 40, text)
			var documents, last, read int
			for _, line := range lines[2 : height-1] {
				var name string
				var of int
				if n, _ := fmt.Sscan(strings.ReplaceAll(line, ",", ""), &name, &of); n == 2 && !strings.Contains(line, "busy") {
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
			// Whoever is selected is on it too.
			for d.selected = range 10 {
				if name := fmt.Sprintf("busy-%d", d.selected); !strings.Contains(d.text(), name) {
					t.Errorf("%d levels, height %d: %s is selected\n%s", levels, height, name, text)
				}
			}
		}
	}
}

// A terminal of 40 columns and 10 lines has two lines of levels, and the three busiest.
func TestTopOnASmallTerminal(t *testing.T) {
	t.Parallel()
	d := drawing{look: flooded(9), live: true, width: 40, height: 10, footer: "q: quit"}
	const want = `title
2 workers: 450 documents in the last 0s
LEVEL  DOCUMENTS
  1–8        360  █████████████████████
    9         90  █████
NEXT  COUNT/LOAD  DOCUMENTS  CUSTOMER
   9           -      1,000  busy-0
   9           -        999  busy-1
   9           -        998  busy-2
q: quit`
	if got := ansi.Strip(d.text()); got != want {
		t.Errorf("got\n%s", got)
	}
	for size := range 60 { // nothing is too small
		d.width, d.height = size%8+1, size/8+1
		_ = d.text()
	}
}

func TestTopSortsAndFilters(t *testing.T) {
	t.Parallel()
	busy := func(name string, documents int64, state *insight.State) insight.Busy {
		return insight.Busy{Name: insight.NameOf(name), Documents: documents, State: state}
	}
	all := []insight.Busy{
		busy("acme", 5, &insight.State{NextLevel: 2, Count: -3}),
		busy("Bakery", 9, &insight.State{NextLevel: 9, Load: 700, Pending: 3, OldestMS: 7}),
		busy("clinic", 7, &insight.State{NextLevel: 1, Load: 1, Pending: 8, OldestMS: 9}),
		busy("broken", 8, nil),
	}
	for _, test := range []struct{ by, filter, want string }{
		{"documents", "", "Bakery broken clinic acme"},
		{"level", "", "Bakery acme clinic broken"},
		{"number", "", "Bakery clinic acme broken"},
		{"pending", "", "clinic Bakery broken acme"},
		{"oldest", "", "clinic Bakery broken acme"},
		{"name", "", "Bakery acme broken clinic"},
		{"documents", "BA", "Bakery"},
		{"documents", "nobody", ""},
	} {
		var got []string
		for _, b := range (order{test.by, test.filter}).of(all) {
			got = append(got, b.Exact())
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s, %q: got %q", test.by, test.filter, got)
		}
	}
	first := order{by: sortKeys[0].name}
	o := first
	for range sortKeys {
		o = o.next()
	}
	if o != first {
		t.Errorf("got %v", o)
	}
}
