package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// The plots' measures, in pixels at their natural size.
const (
	plotWidth   = 360
	plotHeight  = 240
	marginTop   = 12
	marginRight = 14
	marginLeft  = 66
	marginBelow = 40
)

// drawing is a plot in the making: SVG whose colours are the page's.
type drawing struct {
	svg    strings.Builder
	height float64
	left   float64
	x, y   scale
}

// scale maps values to pixels.
type scale struct {
	from, to    float64 // values
	start, end  float64 // pixels
	inset       float64 // pixels between an axis and its first value
	logarithmic bool
	ticks       []float64
	text        func(tick float64) string
	label       string
}

func (s scale) at(value float64) float64 {
	from, to := s.from, s.to
	if s.logarithmic {
		value, from, to = math.Log10(max(value, s.from)), math.Log10(from), math.Log10(to)
	}
	share := (value - from) / (to - from)
	return s.start + min(max(share, 0), 1)*(s.end-s.start)
}

// linear returns a scale with round ticks, at most some seven.
func linear(from, to float64, label string) scale {
	if to <= from {
		to = from + 1
	}
	step := math.Pow(10, math.Floor(math.Log10(to-from)))
	for _, factor := range []float64{0.1, 0.2, 0.5, 1, 2} {
		if (to-from)/(step*factor) <= 7 {
			step *= factor
			break
		}
	}
	s := scale{from: from, to: to, text: tickText, label: label}
	for i := math.Ceil(from / step); i*step <= to; i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// logarithm returns a logarithmic scale between powers of ten, with at most
// seven ticks.
func logarithm(from, to float64, label string) scale {
	s := scale{from: from, to: to, logarithmic: true, text: tickText, label: label}
	first, last := math.Round(math.Log10(from)), math.Round(math.Log10(to))
	step := math.Ceil((last - first + 1) / 7)
	for exponent := first; exponent <= last; exponent += step {
		s.ticks = append(s.ticks, math.Pow(10, exponent))
	}
	return s
}

// moments are the waits, in seconds, where logarithmic scales of waits begin and
// end, and have their ticks: 1 ms to 10 s, 1 and 10 min, 1 and 10 h, 10 and 100
// days.
var moments = []float64{0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36_000, 864_000, 8_640_000}

// logarithmOfWaits returns a logarithmic scale for waits, with at most seven
// ticks. Waits that are too short for it are at its start.
func logarithmOfWaits(shortest, longest float64, label string) scale {
	last := len(moments) - 1
	for last > 1 && moments[last-1] >= longest {
		last--
	}
	first := max(last-6, 0)
	for first < last-1 && moments[first+1] <= shortest {
		first++
	}
	s := scale{from: moments[first], to: moments[last], logarithmic: true, ticks: moments[first : last+1], label: label}
	s.text = func(tick float64) string {
		if tick == s.from {
			return "≤ " + momentText(tick)
		}
		return momentText(tick)
	}
	return s
}

func momentText(seconds float64) string {
	switch seconds {
	case 60:
		return "1 min"
	case 3600:
		return "1 h"
	}
	return lasting(seconds)
}

// linearWaits returns a linear scale for waits of up to so many seconds.
func linearWaits(longest float64, label string) scale {
	unit, name := timeUnit(time.Duration(longest * float64(time.Second)))
	s := linear(0, longest/unit.Seconds(), label)
	s.to *= unit.Seconds()
	for i := range s.ticks {
		s.ticks[i] *= unit.Seconds()
	}
	s.text = func(tick float64) string { return tickText(tick/unit.Seconds()) + " " + name }
	return s
}

// timeUnit returns a unit for a length of time, and its name.
func timeUnit(length time.Duration) (unit time.Duration, name string) {
	switch {
	case length < 3*time.Minute:
		return time.Second, "s"
	case length < 3*time.Hour:
		return time.Minute, "min"
	case length < 72*time.Hour:
		return time.Hour, "h"
	}
	return 24 * time.Hour, "days"
}

// lasting says a wait as people do, with two digits: 15 ms, 1.5 s, 21 min, 3.4 h.
func lasting(seconds float64) string {
	minutes := seconds / 60
	hours := minutes / 60
	switch {
	case seconds < 0.0005:
		return "0 s"
	case seconds < 0.0995:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	case seconds < 99.5:
		return twoDigits(seconds) + " s"
	case minutes < 99.5:
		return twoDigits(minutes) + " min"
	case hours < 71.5:
		return twoDigits(hours) + " h"
	}
	return twoDigits(hours/24) + " days"
}

// twoDigits writes 0.15, 1.5, 2, 15 and 150.
func twoDigits(value float64) string {
	if value >= 9.95 {
		return strconv.FormatFloat(math.Round(value), 'f', -1, 64)
	}
	return strconv.FormatFloat(value, 'g', 2, 64)
}

// tickText writes 10000 as 10k.
func tickText(value float64) string {
	switch {
	case value >= 1e6:
		return strconv.FormatFloat(value/1e6, 'g', 4, 64) + "M"
	case value >= 1e3:
		return strconv.FormatFloat(value/1e3, 'g', 4, 64) + "k"
	}
	return strconv.FormatFloat(value, 'g', 4, 64)
}

// newDrawing begins a plot with its axes. The title and the description are for
// those who do not see it.
func newDrawing(title, description string, height, left float64, x, y scale) *drawing {
	d := &drawing{height: height, left: left, x: x, y: y}
	d.x.start, d.x.end = left+x.inset, plotWidth-marginRight
	d.y.start, d.y.end = height-marginBelow, marginTop
	d.printf(`<svg class="plot" viewBox="0 0 %d %.0f" role="img"><title>%s</title><desc>%s</desc>`,
		plotWidth, height, escape(title), escape(description))
	var grid strings.Builder
	for _, tick := range d.x.ticks {
		fmt.Fprintf(&grid, "M%.1f %.1fV%.1f", d.x.at(tick), d.y.start, d.y.end)
	}
	for _, tick := range d.y.ticks {
		fmt.Fprintf(&grid, "M%.1f %.1fH%.1f", left, d.y.at(tick), d.x.end)
	}
	d.printf(`<path class="grid" d="%s"/>`, grid.String())
	for _, tick := range d.x.ticks {
		d.text(d.x.at(tick), d.y.start+15, "middle", d.x.text(tick))
	}
	for _, tick := range d.y.ticks {
		d.text(left-6, d.y.at(tick)+4, "end", d.y.text(tick))
	}
	d.text((d.x.start+d.x.end)/2, height-6, "middle", d.x.label)
	if d.y.label != "" {
		d.printf(`<text text-anchor="middle" transform="translate(12 %.1f) rotate(-90)">%s</text>`,
			(d.y.start+d.y.end)/2, escape(d.y.label))
	}
	return d
}

func (d *drawing) printf(format string, args ...any) { fmt.Fprintf(&d.svg, format, args...) }

func (d *drawing) text(x, y float64, anchor, text string) {
	d.printf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, escape(text))
}

// end returns the plot. What came from outside has been escaped.
func (d *drawing) end() template.HTML {
	d.printf(`</svg>`)
	return template.HTML(d.svg.String())
}

func escape(text string) string { return template.HTMLEscapeString(text) }
