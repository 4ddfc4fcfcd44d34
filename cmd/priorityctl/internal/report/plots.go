package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// waitPlot shows the mean waits of the groups over time.
func waitPlot(title string, series simulation.Series, groups []string, waits scale) template.HTML {
	d := newDrawing(title+": wait over time", "A line for each of "+listed(groups)+".", plotHeight, marginLeft,
		timeScale(series, "served"), waits)
	// The first group has a whole line, on which the dashes of others are seen.
	for i, group := range groups {
		var path, points strings.Builder
		for _, bins := range stretches(series.Waits[group]) {
			command := 'M'
			for _, bin := range bins {
				x, y := d.x.at(middle(series, bin)), d.y.at(series.Waits[group][bin])
				if len(bins) == 1 {
					points.WriteString(mark(i, x, y, 3.5, ""))
					continue
				}
				fmt.Fprintf(&path, "%c%.1f %.1f", command, x, y)
				command = 'L'
			}
		}
		d.printf(`<path class="line g%[1]d" d="%[2]s"/><g class="dot g%[1]d">%[3]s</g>`, i, path.String(), points.String())
	}
	return d.end()
}

// longestGap is over how many bins without a document a line goes on.
const longestGap = 5

// stretches returns the bins that have a wait, those of each line for themselves.
func stretches(waits []float64) (stretches [][]int) {
	last := math.MinInt / 2
	for bin, wait := range waits {
		if math.IsNaN(wait) {
			continue
		}
		if bin-last > longestGap+1 {
			stretches = append(stretches, nil)
		}
		end := len(stretches) - 1
		stretches[end] = append(stretches[end], bin)
		last = bin
	}
	return stretches
}

// timeScale is that of what is done with the documents.
func timeScale(series simulation.Series, done string) scale {
	bins := 0
	for _, waits := range series.Waits {
		bins = len(waits)
	}
	unit, name := timeUnit(series.Bin * 120)
	return linear(0, float64(series.Bin)*float64(bins)/float64(unit), done+", "+name+" after the start")
}

// middle returns that of a bin on the time scale.
func middle(series simulation.Series, bin int) float64 {
	unit, _ := timeUnit(series.Bin * 120)
	return (float64(bin) + 0.5) * float64(series.Bin) / float64(unit)
}

// dotPlot shows the customers by what they sent and how long they waited.
func dotPlot(title string, series simulation.Series, groups []string, sent, waits scale) template.HTML {
	d := newDrawing(title+": each customer as a dot", dotsInWords(series.Dots), plotHeight, marginLeft, sent, waits)
	for i, group := range groups {
		dots := slices.DeleteFunc(slices.Clone(series.Dots), func(dot simulation.Dot) bool { return dot.Group != group })
		radius := 2.2
		if len(dots) == 1 {
			radius = 4
		}
		d.printf(`<g class="dot g%d">`, i)
		for _, dot := range dots {
			x, y := d.x.at(between(dot.Sent)), d.y.at(between(dot.Waited))
			d.svg.WriteString(mark(i, x, y, radius+1.2*math.Log10(float64(dot.Customers)), dotText(dot)))
		}
		d.printf(`</g>`)
		if len(dots) == 1 && len(groups) == 2 && i == 1 {
			const beside = 18 // pixels from a dot to its text
			x, y := d.x.at(between(dots[0].Sent)), d.y.at(between(dots[0].Waited))
			if y < d.y.end+beside {
				y += 2 * beside
			}
			d.text(x+6, y-beside/2, "end", audience(group))
		}
	}
	return d.end()
}

// between is where a dot stands.
func between(s simulation.Spread) float64 { return (s.Least + s.Most) / 2 }

// mark returns a shape that only this group has, with a text to point at.
func mark(group int, x, y, radius float64, text string) string {
	far := 1.3 * radius
	var shape, path string
	switch group % 4 {
	case 0:
		shape = fmt.Sprintf(`circle cx="%.1f" cy="%.1f" r="%.1f"`, x, y, radius)
	case 1:
		path = fmt.Sprintf("M%.1f %.1fl%.1f %.1fl-%.1f %.1fl-%.1f -%.1fz", x, y-far, far, far, far, far, far, far)
	case 2:
		path = fmt.Sprintf("M%.1f %.1fl%.1f %.1fh-%.1fz", x, y-far, far, 2*far, 2*far)
	default:
		path = fmt.Sprintf("M%.1f %.1fh%.1fv%.1fh-%.1fz", x-radius, y-radius, 2*radius, 2*radius, 2*radius)
	}
	if path != "" {
		shape = `path d="` + path + `"`
	}
	if text == "" {
		return "<" + shape + "/>"
	}
	name, _, _ := strings.Cut(shape, " ")
	return "<" + shape + "><title>" + escape(text) + "</title></" + name + ">"
}

// levelPlot shows which share of the documents had which level over time.
func levelPlot(title string, series simulation.Series) template.HTML {
	d := newDrawing(title+": levels over time", "For each moment the share of the documents at each level, level 1 at the bottom.",
		plotHeight, marginLeft, timeScale(series, "submitted"), linear(0, 100, "documents, %"))
	width := d.x.at(middle(series, 1)) - d.x.at(middle(series, 0))
	totals := make([]int, len(series.Levels[0]))
	for _, counts := range series.Levels {
		add(totals, counts)
	}
	// A band's area has those of all earlier levels in it, which are drawn later.
	upTo := slices.Clone(totals)
	for _, b := range slices.Backward(levelBands(len(series.Levels))) {
		var path strings.Builder
		height := d.y.start
		fmt.Fprintf(&path, "M%.1f %.1f", d.x.start, height)
		for bin, total := range totals {
			top := d.y.at(100 * float64(upTo[bin]) / float64(max(total, 1)))
			if math.Abs(top-height) < 0.05 {
				continue
			}
			fmt.Fprintf(&path, "H%.1fV%.1f", d.x.at(middle(series, bin))-width/2, top)
			height = top
		}
		d.printf(`<path shape-rendering="crispEdges" fill="%s" d="%sH%.1fV%.1fz"><title>%s</title></path>`,
			b.Color, path.String(), d.x.end, d.y.start, b.Text)
		for _, counts := range series.Levels[b.first:b.end] {
			for bin, count := range counts {
				upTo[bin] -= count
			}
		}
	}
	return d.end()
}

func add(to, values []int) {
	for i, value := range values {
		to[i] += value
	}
}

// viridis are colours that differ in lightness too: light for the first served.
var viridis = []string{"#fde725", "#addc30", "#5ec962", "#28ae80", "#21918c", "#2c728e", "#3b528b", "#472d7b", "#440154"}

// band is the levels that have one colour, from 0.
type band struct {
	first, end int
	Text       string
	Color      string
}

// levelBands returns a band for each level or, where there are more than nine,
// nine for all.
func levelBands(levels int) []band {
	var bands []band
	for level := range levels {
		color := viridis[level*(len(viridis)-1)/max(levels-1, 1)]
		if last := len(bands) - 1; last >= 0 && bands[last].Color == color {
			bands[last].end++
			bands[last].Text = fmt.Sprintf("%d–%d", bands[last].first+1, level+1)
			continue
		}
		bands = append(bands, band{level, level + 1, strconv.Itoa(level + 1), color})
	}
	return bands
}

// distributionPlot shows how the waits of a group are distributed under each
// scheduler: a bar from the 5th to the 95th percentile, a dot at the median, a
// line on to the 99th, and a ring at the longest.
func distributionPlot(outcomes []simulation.Outcome, group string, color int, waits scale) template.HTML {
	const row, left = 24, 104
	height := float64(marginTop + marginBelow + row*len(outcomes))
	rows := scale{from: 0, to: float64(len(outcomes))}
	d := newDrawing("distribution of the waits of "+audience(group), "A row for each way to schedule.", height, left, waits, rows)
	for i, outcome := range outcomes {
		y := marginTop + row*(float64(i)+0.5)
		d.text(left-8, y+4, "end", outcome.Scheduler)
		quantiles := outcome.Series.Quantiles[group]
		if len(quantiles) == 0 {
			continue
		}
		at := func(p float64) float64 { return d.x.at(quantiles[slices.Index(simulation.SeriesQuantiles, p)]) }
		d.printf(`<path class="whisker g%d" d="M%.1f %.1fH%.1fm0 -6v12"/>`, color, at(0.05), y, at(0.99))
		d.printf(`<rect class="late g%d" x="%.1f" y="%.1f" width="%.1f" height="12" rx="2"/>`, color, at(0.05), y-6, max(at(0.95)-at(0.05), 1))
		d.printf(`<circle class="median" cx="%.1f" cy="%.1f" r="3.5"/>`, at(0.5), y)
		d.printf(`<circle class="ring g%d" cx="%.1f" cy="%.1f" r="3"/>`, color, at(1), y)
	}
	return d.end()
}
