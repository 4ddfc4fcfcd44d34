package report

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
)

// The plots' measures, in pixels at their natural size.
const (
	plotWidth   = 360
	plotHeight  = 230
	marginTop   = 12
	marginRight = 14
	marginLeft  = 54
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
	logarithmic bool
	ticks       []float64
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
	s := scale{from: from, to: to, label: label}
	for i := math.Ceil(from / step); i*step <= to; i++ {
		s.ticks = append(s.ticks, i*step)
	}
	return s
}

// logarithm returns a logarithmic scale between powers of ten, with at most
// seven ticks.
func logarithm(from, to float64, label string) scale {
	s := scale{from: from, to: to, logarithmic: true, label: label}
	first, last := math.Round(math.Log10(from)), math.Round(math.Log10(to))
	step := math.Ceil((last - first + 1) / 7)
	for exponent := first; exponent <= last; exponent += step {
		s.ticks = append(s.ticks, math.Pow(10, exponent))
	}
	return s
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

// newDrawing begins a plot with its axes.
func newDrawing(title string, height, left float64, x, y scale) *drawing {
	d := &drawing{height: height, left: left, x: x, y: y}
	d.x.start, d.x.end = left, plotWidth-marginRight
	d.y.start, d.y.end = height-marginBelow, marginTop
	d.printf(`<svg viewBox="0 0 %d %.0f" role="img" aria-label="%s">`, plotWidth, height, escape(title))
	for _, tick := range d.x.ticks {
		at := d.x.at(tick)
		d.printf(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, at, at, d.y.start, d.y.end)
		d.text(at, d.y.start+14, "middle", tickText(tick))
	}
	for _, tick := range d.y.ticks {
		at := d.y.at(tick)
		d.printf(`<line class="grid" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, d.x.start, d.x.end, at, at)
		d.text(left-6, at+4, "end", tickText(tick))
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
