package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/docpriority/priority/cmd/priorityctl/internal/simulation"
)

// waitPlot shows the mean waits of the groups over time.
func waitPlot(series simulation.Series, groups []string, shortest, longest float64) template.HTML {
	d := newDrawing("mean wait over time", plotHeight, marginLeft,
		timeScale(series, "served"), logarithm(shortest, longest, "mean wait, s"))
	// The first group is drawn last, over the others.
	for i, group := range slices.Backward(groups) {
		var path strings.Builder
		command := 'M'
		for bin, wait := range series.Waits[group] {
			if math.IsNaN(wait) {
				continue
			}
			fmt.Fprintf(&path, "%c%.1f %.1f", command, d.x.at(middle(series, bin)), d.y.at(wait))
			command = 'L'
		}
		d.printf(`<path class="line g%d" d="%s"/>`, i, path.String())
	}
	return d.end()
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

// distributionPlot shows how the waits of a group are distributed under each
// scheduler: a bar from the 5th to the 95th percentile, a dot at the median, a
// line on to the 99th, and a ring at the longest.
func distributionPlot(outcomes []simulation.Outcome, group string, color int, shortest, longest float64) template.HTML {
	const row, left = 24, 104
	height := float64(marginTop + marginBelow + row*len(outcomes))
	rows := scale{from: 0, to: float64(len(outcomes))}
	d := newDrawing("distribution of waits", height, left, logarithm(shortest, longest, "wait, s"), rows)
	for i, outcome := range outcomes {
		y := marginTop + row*(float64(i)+0.5)
		d.text(left-8, y+4, "end", outcome.Scheduler)
		quantiles := outcome.Series.Quantiles[group]
		if len(quantiles) == 0 {
			continue
		}
		at := func(p float64) float64 { return d.x.at(quantiles[slices.Index(simulation.SeriesQuantiles, p)]) }
		d.printf(`<line class="line g%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, color, at(0.05), at(0.99), y, y)
		d.printf(`<rect class="bar g%d" x="%.1f" y="%.1f" width="%.1f" height="12" rx="2"/>`, color, at(0.05), y-6, max(at(0.95)-at(0.05), 1))
		d.printf(`<line class="line g%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, color, at(0.99), at(0.99), y-6, y+6)
		d.printf(`<circle class="dot" cx="%.1f" cy="%.1f" r="3.5"/>`, at(0.5), y)
		d.printf(`<circle class="ring g%d" cx="%.1f" cy="%.1f" r="3"/>`, color, at(1), y)
	}
	return d.end()
}

// levelPlot shows which share of the documents had which level over time.
func levelPlot(series simulation.Series) template.HTML {
	d := newDrawing("levels over time", plotHeight, marginLeft,
		timeScale(series, "submitted"), linear(0, 100, "documents, %"))
	bins := len(series.Levels[0])
	width := d.x.at(middle(series, 1)) - d.x.at(middle(series, 0))
	for bin := range bins {
		total := 0
		for _, counts := range series.Levels {
			total += counts[bin]
		}
		below := 0 // documents of earlier levels
		for level, counts := range series.Levels {
			if counts[bin] == 0 {
				continue
			}
			from := d.y.at(100 * float64(below) / float64(total))
			below += counts[bin]
			to := d.y.at(100 * float64(below) / float64(total))
			d.printf(`<rect shape-rendering="crispEdges" fill="%s" x="%.2f" y="%.1f" width="%.2f" height="%.1f"/>`, levelColor(level, len(series.Levels)),
				d.x.at(middle(series, bin))-width/2, to, width+0.2, from-to)
		}
	}
	return d.end()
}

// viridis are colours that differ in lightness too.
var viridis = []string{"#fde725", "#addc30", "#5ec962", "#28ae80", "#21918c", "#2c728e", "#3b528b", "#472d7b", "#440154"}

// levelColor is that of a level, from 0: light for the first served.
func levelColor(level, levels int) string {
	return viridis[level*(len(viridis)-1)/max(levels-1, 1)]
}
