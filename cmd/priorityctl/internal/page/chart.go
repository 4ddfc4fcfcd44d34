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

// grid has a number for each band of levels in each step of time, the earliest first; 0: nothing.
type grid struct {
	from  time.Time
	step  time.Duration
	bands []band
	cells [][]float64 // by step, then by band
}

// band is levels that a chart shows as one.
type band struct {
	First, Last priority.Level
	Shade       int // of the color, 1 to shades
}

const shades = 9

// bandsOf returns a band a level, or as many as there are shades.
func bandsOf(last priority.Level) []band {
	n := min(int(last), shades)
	bands := make([]band, n)
	for i := range bands {
		bands[i] = band{priority.Level(i*int(last)/n) + 1, priority.Level((i + 1) * int(last) / n), 1 + i*(shades-1)/max(n-1, 1)}
	}
	return bands
}

// String is the band's levels, such as "3" or "3–5".
func (b band) String() string {
	if b.First == b.Last {
		return fmt.Sprint(b.First)
	}
	return fmt.Sprintf("%d–%d", b.First, b.Last)
}

// newGrid returns an empty grid of so many steps.
func newGrid(from time.Time, steps int, step time.Duration, bands []band) grid {
	g := grid{from, step, bands, make([][]float64, steps)}
	for i := range g.cells {
		g.cells[i] = make([]float64, len(bands))
	}
	return g
}

// until returns the beginning of so many steps, the last of which has this time.
func until(now time.Time, steps int, step time.Duration) time.Time {
	return now.UTC().Truncate(step).Add(-time.Duration(steps-1) * step)
}

// cell returns the number for a time and a level, to be changed.
func (g grid) cell(at time.Time, level priority.Level) *float64 {
	i := int(at.Sub(g.from) / g.step)
	if i >= 0 && i < len(g.cells) && !at.Before(g.from) {
		for n, b := range g.bands {
			if level >= b.First && level <= b.Last {
				return &g.cells[i][n]
			}
		}
	}
	return new(float64)
}

// chart is a grid as the template draws it. The drawing is as wide as there are steps, and 1,000
// high; places are in percent from the left or from the top.
type chart struct {
	ID, Title, Note string
	Says            string // what it shows, for those who do not see it
	Kind            string // "area" or "line"
	Paths           []path
	Ticks, Times    []tick
	Steps           []string // what each step has, in words; empty: nothing
}

type path struct {
	Shade int
	D     string
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
	below := make([]float64, len(g.cells))
	for n, b := range g.bands {
		var d strings.Builder
		for i, numbers := range g.cells {
			if numbers[n] > 0 {
				high := 1000 * numbers[n] / top
				below[i] += high
				fmt.Fprintf(&d, "M%.2f %.1fh.88v%.1fh-.88z", float64(i)+.06, 1000-below[i], high)
			}
		}
		c.Paths = append(c.Paths, path{b.Shade, d.String()})
	}
	return c
}

// marks are the times that a logarithmic axis shows, in milliseconds.
var marks = []float64{1, 10, 100, 1e3, 10e3, 60e3, 600e3, 3600e3, 36000e3, 864000e3}

// lines draws times in milliseconds beside each other, on a logarithmic axis.
func lines(g grid) chart {
	least, most := math.Inf(1), 0.
	for _, numbers := range g.cells {
		for _, n := range numbers {
			if n > 0 {
				least, most = min(least, n), max(most, n)
			}
		}
	}
	low, high := 0, 1
	for low < len(marks)-2 && marks[low+1] <= least && !math.IsInf(least, 1) {
		low++
	}
	for high = low + 1; high < len(marks)-1 && marks[high] < most; {
		high++
	}
	place := func(ms float64) float64 { // in percent from the top
		share := math.Log(ms/marks[low]) / math.Log(marks[high]/marks[low])
		return 100 * (1 - max(0, min(1, share)))
	}
	c := g.chart("line", func(n float64) string { return insight.About(time.Duration(n) * time.Millisecond) })
	for _, mark := range marks[low : high+1] {
		c.Ticks = append(c.Ticks, tick{place(mark), insight.Span(time.Duration(mark) * time.Millisecond)})
	}
	for n, b := range slices.Backward(g.bands) { // so that the first level is on top
		var d strings.Builder
		next := -1
		for i, numbers := range g.cells {
			if numbers[n] <= 0 {
				continue
			}
			if i != next {
				fmt.Fprintf(&d, "M%d %.1fH%d", i, 10*place(numbers[n]), i+1)
			} else {
				fmt.Fprintf(&d, "V%.1fH%d", 10*place(numbers[n]), i+1)
			}
			next = i + 1
		}
		c.Paths = append(c.Paths, path{b.Shade, d.String()})
	}
	return c
}

// chart returns what charts of both kinds have.
func (g grid) chart(kind string, says func(float64) string) chart {
	c := chart{Kind: kind, Steps: make([]string, len(g.cells))}
	highest := make([]float64, len(g.bands))
	for i, numbers := range g.cells {
		if named := g.named(numbers, says); named != "" {
			c.Steps[i] = g.from.Add(time.Duration(i)*g.step).Format("15:04: ") + named
		}
		for n, number := range numbers {
			highest[n] = max(highest[n], number)
		}
	}
	if c.Says = g.named(highest, says); c.Says != "" {
		c.Says = "at most " + c.Says
	}
	for quarter := range 5 {
		at := g.from.Add(time.Duration(quarter*len(g.cells)) * g.step / 4)
		c.Times = append(c.Times, tick{25 * float64(quarter), at.Format("15:04")})
	}
	return c
}

// named lists the bands that have a number.
func (g grid) named(numbers []float64, says func(float64) string) string {
	var all []string
	for n, number := range numbers {
		if number > 0 {
			all = append(all, fmt.Sprintf("level %s %s", g.bands[n], says(number)))
		}
	}
	return strings.Join(all, ", ")
}
