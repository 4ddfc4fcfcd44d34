package flood

import (
	"bytes"
	"fmt"
	"html"
	"time"
)

// The picture's measures, in pixels: two panels, one above the other.
const (
	width, height      = 720, 250 // of a panel
	left, top, bottom  = 60, 40, 40
	plotWide, plotHigh = width - left - 20, height - top - bottom
)

var colours = map[string]string{
	"bakery": "#1b7f4d", "clinic": "#1f5fbf", "dentist": "#8a3fa0", flooding: "#b9b2a6",
}

// Picture draws each document as a dot, when it arrived and how long it waited, as
// an SVG. Both panels have the same scale.
func Picture(queue string, with, without []Wait) []byte {
	var until, most time.Duration
	for _, waits := range [][]Wait{with, without} {
		for _, wait := range waits {
			until, most = max(until, wait.Arrived), max(most, wait.Waited)
		}
	}
	until, most = roundUp(until), roundUp(most)

	var svg bytes.Buffer
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", width, 2*height+45)
	fmt.Fprintf(&svg, "<title>%s: how long documents wait during a flood, with levels and without</title>\n", html.EscapeString(queue))
	fmt.Fprintf(&svg, `<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	panel(&svg, 0, "with levels", with, until, most)
	panel(&svg, height, "without levels", without, until, most)
	legend(&svg)
	svg.WriteString("</svg>\n")
	return svg.Bytes()
}

func panel(svg *bytes.Buffer, y int, name string, waits []Wait, until, most time.Duration) {
	fmt.Fprintf(svg, `<g transform="translate(%d %d)">`+"\n", left, y+top)
	fmt.Fprintf(svg, `<text x="0" y="-16" font-weight="bold">%s</text>`+"\n", name)
	for second := time.Duration(0); second <= most; second += step(most) {
		at := plotHigh - scale(second, most, plotHigh)
		fmt.Fprintf(svg, `<path d="M0 %.1fH%d" stroke="#e4e0d8"/><text x="-8" y="%.1f" text-anchor="end">%g s</text>`+"\n", at, plotWide, at+4, second.Seconds())
	}
	for second := time.Duration(0); second <= until; second += time.Second {
		fmt.Fprintf(svg, `<text x="%.1f" y="%d" text-anchor="middle">%g s</text>`+"\n", scale(second, until, plotWide), plotHigh+18, second.Seconds())
	}
	for _, flooded := range []bool{true, false} { // the flood is behind the others
		for _, wait := range waits {
			if (wait.Customer == flooding) == flooded {
				fmt.Fprintf(svg, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", scale(wait.Arrived, until, plotWide),
					plotHigh-scale(wait.Waited, most, plotHigh), colours[wait.Customer])
			}
		}
	}
	svg.WriteString("</g>\n")
}

func legend(svg *bytes.Buffer) {
	fmt.Fprintf(svg, `<g transform="translate(%d %d)">`, left, 2*height+10)
	for i, customer := range customers() {
		fmt.Fprintf(svg, `<circle cx="%d" cy="-4" r="4" fill="%s"/><text x="%d" y="0">%s</text>`, 90*i+4, colours[customer], 90*i+12, customer)
	}
	fmt.Fprintf(svg, `<text x="0" y="22">a dot: when a document arrived (across), and how long it waited (up)</text></g>`+"\n")
}

func scale(value, of time.Duration, pixels int) float64 {
	return float64(value) / float64(of) * float64(pixels)
}

func roundUp(d time.Duration) time.Duration {
	return max(time.Second, (d + time.Second - 1).Truncate(time.Second))
}

func step(most time.Duration) time.Duration {
	return max(time.Second, most/4).Truncate(time.Second)
}
