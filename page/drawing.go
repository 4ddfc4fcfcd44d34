package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"

	"github.com/docpriority/priority/internal/insight"
)

// The pictures are SVG that takes its colours from the style sheet. All that they say
// is in words beside them or in their titles too.

// sparkPoints is how many values a small picture has room for.
const sparkPoints = 30

// bar draws a share of 1.
func bar(share float64, class string) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="10"/><rect class="%s" width="%.2f" height="10"/></svg>`,
		template.HTMLEscapeString(class), 100*min(max(share, 0), 1)))
}

// spark draws the last values, the latest at the right.
func spark(values []float64, title string) template.HTML {
	if len(values) < 2 {
		return `<span class="faint">–</span>`
	}
	values = values[max(0, len(values)-sparkPoints):]
	return template.HTML(fmt.Sprintf(
		`<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img"><title>%s</title>%s</svg>`,
		template.HTMLEscapeString(title+": "+lately(values)), curve(values, 120, 24, sparkPoints)))
}

// chart draws the last values in the width of the page.
func chart(values []float64, title string) template.HTML {
	if len(values) < 2 {
		return ""
	}
	return template.HTML(fmt.Sprintf(
		`<svg class="chart" viewBox="0 0 600 80" preserveAspectRatio="none" role="img"><title>%s</title><path class="grid" d="M0 1H600M0 40H600M0 79H600"/>%s</svg>`,
		template.HTMLEscapeString(title+": "+lately(values)), curve(values, 600, 80, points)))
}

// lately says what values were.
func lately(values []float64) string {
	return fmt.Sprintf("now %s, in the last %d passes from %s to %s", rateText(values[len(values)-1]), len(values), rateText(slices.Min(values)), rateText(slices.Max(values)))
}

// curve draws values, up to the greatest one. A picture that has room for more of them
// is filled from the right.
func curve(values []float64, width, height float64, room int) string {
	most := max(slices.Max(values), math.SmallestNonzeroFloat64)
	at := func(i int) float64 { return width * (1 - float64(len(values)-1-i)/float64(room-1)) }
	var line strings.Builder
	for i, value := range values {
		command := "L"
		if i == 0 {
			command = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", command, at(i), height-1-(height-2)*value/most)
	}
	return fmt.Sprintf(`<path class="area" d="%sL%.0f %.0fL%.1f %.0fZ"/><path class="line" d="%s"/>`,
		line.String(), width, height, at(0), height, line.String())
}

// rateText writes how many there are a second.
func rateText(rate float64) string {
	switch {
	case rate == 0:
		return "0"
	case rate < 0.01:
		return "<0.01"
	case rate < 1:
		return fmt.Sprintf("%.2f", rate)
	case rate < 100:
		return fmt.Sprintf("%.1f", rate)
	}
	return insight.Group(int64(math.Round(rate)))
}
