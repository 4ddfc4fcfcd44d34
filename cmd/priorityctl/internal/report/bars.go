package report

import (
	"fmt"
	"html/template"
	"strings"
)

// bar is how long a group waits by one way to schedule, in seconds.
type bar struct {
	title            string
	typical, unlucky float64 // p50 and p99
	within           float64 // half the confidence interval of unlucky
}

// barPlot shows bars below one another: dark up to the typical wait, light on to
// the unlucky one, with a note above them. It takes the width that it is given, and its texts keep their
// size: positions are in percent, heights in pixels.
func barPlot(title, note string, bars []bar, color string, waits scale) template.HTML {
	const head, row, thick = 20, 46, 14
	waits.start, waits.end = 0, 100
	bottom := head + row*len(bars)
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg class="bars" height="%d" role="img"><title>%s</title><desc>`, bottom+22, escape(title))
	for _, b := range bars {
		fmt.Fprintf(&svg, "%s: typical %s, unlucky %s. ", escape(b.title), lasting(b.typical), lasting(b.unlucky))
	}
	svg.WriteString("</desc>")
	fmt.Fprintf(&svg, `<text class="small" x="0" y="12">%s</text>`, escape(note))
	svg.WriteString(`<text class="small" x="100%" y="12" text-anchor="end">typical · unlucky</text>`)
	for i, tick := range waits.ticks {
		at := waits.at(tick)
		fmt.Fprintf(&svg, `<line class="grid" x1="%.2f%%" x2="%.2f%%" y1="%d" y2="%d"/>`, at, at, head, bottom)
		fmt.Fprintf(&svg, `<text class="small" x="%.2f%%" y="%d" text-anchor="%s">%s</text>`,
			at, bottom+16, anchor(i, len(waits.ticks), at), waits.text(tick))
	}
	for i, b := range bars {
		top := head + row*i
		fmt.Fprintf(&svg, `<g class="%s">`, color)
		fmt.Fprintf(&svg, `<title>%s: typical %s, unlucky %s ± %s</title>`, escape(b.title), lasting(b.typical), lasting(b.unlucky), lasting(b.within))
		fmt.Fprintf(&svg, `<text x="0" y="%d">%s</text>`, top+17, escape(b.title))
		fmt.Fprintf(&svg, `<text x="100%%" y="%d" text-anchor="end">%s · <tspan class="strong">%s</tspan></text>`, top+17, lasting(b.typical), lasting(b.unlucky))
		fmt.Fprintf(&svg, `<rect class="late" x="0" y="%d" width="%.2f%%" height="%d"/>`, top+24, max(waits.at(b.unlucky), 0.4), thick)
		fmt.Fprintf(&svg, `<rect class="soon" x="0" y="%d" width="%.2f%%" height="%d"/>`, top+24, max(waits.at(b.typical), 0.4), thick)
		svg.WriteString("</g>")
	}
	svg.WriteString("</svg>")
	return template.HTML(svg.String())
}

// anchor keeps the first and the last text of a scale within it.
func anchor(tick, ticks int, at float64) string {
	switch {
	case tick == 0:
		return "start"
	case tick == ticks-1 && at > 95:
		return "end"
	}
	return "middle"
}

// markPlot shows waits by several ways beside one another on one line, each with
// the mark of its way.
func markPlot(title string, waits []float64, scale scale) template.HTML {
	scale.start, scale.end = 3, 97
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg class="marks" height="18" role="img"><title>%s</title>`, escape(title))
	for _, tick := range scale.ticks {
		fmt.Fprintf(&svg, `<line class="grid" x1="%.1[1]f%%" x2="%.1[1]f%%" y1="0" y2="18"/>`, scale.at(tick))
	}
	least, most := waits[0], waits[0]
	for _, wait := range waits {
		least, most = min(least, wait), max(most, wait)
	}
	fmt.Fprintf(&svg, `<line class="span" x1="%.1f%%" x2="%.1f%%" y1="9" y2="9"/>`, scale.at(least), scale.at(most))
	for way, wait := range waits {
		// A nested picture moves a mark, whose path is in pixels, to a percentage.
		fmt.Fprintf(&svg, `<svg x="%.1f%%" overflow="visible"><g class="way%d">%s</g></svg>`, scale.at(wait), way, mark(way, 0, 9, wayRadius(way), ""))
	}
	svg.WriteString("</svg>")
	return template.HTML(svg.String())
}

// scalePlot shows the texts of the scale that markPlot has.
func scalePlot(scale scale) template.HTML {
	scale.start, scale.end = 3, 97
	var svg strings.Builder
	svg.WriteString(`<svg class="marks" height="18" aria-hidden="true">`)
	for i, tick := range scale.ticks {
		fmt.Fprintf(&svg, `<text class="small" x="%.1f%%" y="13" text-anchor="%s">%s</text>`,
			scale.at(tick), anchor(i, len(scale.ticks), scale.at(tick)), scale.text(tick))
	}
	svg.WriteString("</svg>")
	return template.HTML(svg.String())
}
