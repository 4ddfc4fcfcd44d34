package page

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// grid has a number for each level in each step of time, the earliest first; 0: nothing.
type grid struct {
	from  time.Time
	step  time.Duration
	cells [][]float64 // by step, then by level
}

// newGrid returns an empty grid of so many steps, the last of which has this time.
func newGrid(now time.Time, steps int, step time.Duration, last priority.Level) grid {
	g := grid{now.UTC().Truncate(step).Add(-time.Duration(steps-1) * step), step, make([][]float64, steps)}
	for i := range g.cells {
		g.cells[i] = make([]float64, last)
	}
	return g
}

// cell returns the number for a time and a level, to be changed.
func (g grid) cell(at time.Time, level priority.Level) *float64 {
	i := int(at.Sub(g.from) / g.step)
	if at.Before(g.from) || i >= len(g.cells) || int(level) > len(g.cells[i]) {
		return new(float64)
	}
	return &g.cells[i][level-1]
}

// chart is a grid as the template draws it. The drawing is as wide as there are steps, and 1,000
// high; other places are in percent from the left or from the top.
type chart struct {
	Title, Note  string
	Says         string // what it shows, for those who do not see it
	Kind         string // "area" or "line"
	Paths        []path
	Ticks, Times []tick
	Steps        []string // what each step has, in words; empty: nothing
}

// path is what a level has.
type path struct {
	Level, Shade int // the color is one of nine
	D            string
}

type tick struct {
	At   float64
	Says string
}

// areas draws numbers of documents on top of each other, level 1 at the bottom.
func areas(g grid) chart {
	most := 0.
	for _, numbers := range g.cells {
		sum := 0.
		for _, n := range numbers {
			sum += n
		}
		most = max(most, sum)
	}
	top := 2.
	for next := 0; top < most; next++ { // 4, 10, 20, 40, 100
		top *= []float64{2, 2.5, 2}[next%3]
	}
	c := g.chart("area", func(n float64) string { return insight.Group(int64(n)) })
	for _, share := range []float64{0, .5, 1} {
		c.Ticks = append(c.Ticks, tick{100 * (1 - share), insight.Group(int64(share * top))})
	}
	for i, numbers := range g.cells {
		place := 1000.
		for n, number := range numbers {
			if high := 1000 * number / top; high > 0 {
				place -= high
				c.Paths[n].D += fmt.Sprintf("M%.2f %.1fh.88v%.1fh-.88z", float64(i)+.06, place, high)
			}
		}
	}
	return c
}

// marks are what a logarithmic axis of milliseconds shows.
var marks = []float64{1, 10, 100, 1e3, 10e3, 60e3, 600e3, 3600e3, 36000e3, 864000e3}

// lines draws times in milliseconds beside each other, on a logarithmic axis.
func lines(g grid) chart {
	all := slices.DeleteFunc(slices.Concat(g.cells...), func(n float64) bool { return n == 0 })
	if len(all) == 0 {
		all = marks[:1]
	}
	low, high := 0, 1
	for low < len(marks)-2 && marks[low+1] <= slices.Min(all) {
		low++
	}
	for high = low + 1; high < len(marks)-1 && marks[high] < slices.Max(all); {
		high++
	}
	place := func(ms float64) float64 { // in percent from the top
		return 100 * (1 - max(0, min(1, math.Log(ms/marks[low])/math.Log(marks[high]/marks[low]))))
	}
	c := g.chart("line", func(n float64) string { return insight.About(time.Duration(n) * time.Millisecond) })
	for _, mark := range marks[low : high+1] {
		c.Ticks = append(c.Ticks, tick{place(mark), insight.Span(time.Duration(mark) * time.Millisecond)})
	}
	for i, numbers := range g.cells {
		for n, number := range numbers {
			if number == 0 {
				continue
			}
			start := fmt.Sprintf("M%d %.1f", i, 10*place(number))
			if i > 0 && g.cells[i-1][n] > 0 { // it goes on
				start = fmt.Sprintf("V%.1f", 10*place(number))
			}
			c.Paths[n].D += fmt.Sprintf("%sH%d", start, i+1)
		}
	}
	slices.Reverse(c.Paths) // so that the first level is on top
	return c
}

// chart returns what charts of both kinds have.
func (g grid) chart(kind string, says func(float64) string) chart {
	last := len(g.cells[0])
	c := chart{Kind: kind, Steps: make([]string, len(g.cells)), Paths: make([]path, last)}
	highest := make([]float64, last)
	for n := range last {
		c.Paths[n] = path{Level: n + 1, Shade: 1 + n*8/max(last-1, 1)}
	}
	for i, numbers := range g.cells {
		if named := named(numbers, says); named != "" {
			c.Steps[i] = g.from.Add(time.Duration(i)*g.step).Format("15:04: ") + named
		}
		for n, number := range numbers {
			highest[n] = max(highest[n], number)
		}
	}
	if c.Says = named(highest, says); c.Says != "" {
		c.Says = "at most " + c.Says
	}
	for quarter := range 5 {
		at := g.from.Add(time.Duration(quarter*len(g.cells)) * g.step / 4)
		c.Times = append(c.Times, tick{25 * float64(quarter), at.Format("15:04")})
	}
	return c
}

// named lists the levels that have a number.
func named(numbers []float64, says func(float64) string) string {
	var all []string
	for n, number := range numbers {
		if number > 0 {
			all = append(all, fmt.Sprintf("level %d %s", n+1, says(number)))
		}
	}
	return strings.Join(all, ", ")
}
