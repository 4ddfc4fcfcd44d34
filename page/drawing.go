package page

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/internal/insight"
)

// The pictures are SVG that takes its colours from the style sheet. Words beside
// them, or their titles, say the same.

const (
	sparkPoints = 60  // minutes that a small picture shows
	dayPoints   = 240 // of six minutes each
	dayWidth    = 960
	dayHeight   = 90
)

// bar draws a share of 1.
func bar(share float64, class string) template.HTML {
	return template.HTML(fmt.Sprintf(
		`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="track" width="100" height="10"/><rect class="%s" width="%.2f" height="10"/></svg>`,
		template.HTMLEscapeString(class), 100*min(max(share, 0), 1)))
}

// spark draws the values of the last minutes, the latest at the right. NaN: no value.
func spark(values []float64, title string) template.HTML {
	line := curve(values, 120, 24)
	if line == "" {
		return `<span class="faint">–</span>`
	}
	return template.HTML(fmt.Sprintf(
		`<svg class="spark" viewBox="0 0 120 24" preserveAspectRatio="none" role="img"><title>%s</title>%s</svg>`,
		template.HTMLEscapeString(title), line))
}

// dayPicture is a picture of the last day.
type dayPicture struct {
	Title  string
	Says   string // what the picture shows, in words
	Values []float64
	Marks  []mark
	End    time.Time
}

// Draw draws the picture, with a line where operators changed something.
func (p dayPicture) Draw() template.HTML {
	var marks strings.Builder
	for _, mark := range p.Marks {
		x := dayWidth * (1 - p.End.Sub(mark.at).Hours()/24)
		fmt.Fprintf(&marks, `<path class="mark" d="M%.1f 0V%d"><title>%s</title></path>`, x, dayHeight,
			template.HTMLEscapeString(insight.Moment(mark.at)+": "+mark.says))
	}
	grid := fmt.Sprintf("M0 1H%[1]dM0 %[2]dH%[1]dM0 %[3]dH%[1]d", dayWidth, dayHeight/2, dayHeight-1)
	return template.HTML(fmt.Sprintf(
		`<svg class="day" viewBox="0 0 %d %d" preserveAspectRatio="none" role="img"><title>%s</title><path class="grid" d="%s"/>%s%s</svg>`,
		dayWidth, dayHeight, template.HTMLEscapeString(p.Title+": "+p.Says), grid, curve(p.Values, dayWidth, dayHeight), marks.String()))
}

// Hours are the times of day below the picture.
func (p dayPicture) Hours() (all []string) {
	for hours := 24; hours >= 0; hours -= 6 {
		all = append(all, p.End.Add(-time.Duration(hours)*time.Hour).UTC().Format("15:04"))
	}
	return all
}

// curve draws values, up to the greatest one. The line is broken where values are
// missing.
func curve(values []float64, width, height float64) string {
	most := 0.0
	for _, value := range values {
		most = max(most, orZero(value))
	}
	most = max(most, math.SmallestNonzeroFloat64)
	var area, line strings.Builder
	for from := 0; from < len(values); {
		if math.IsNaN(values[from]) {
			from++
			continue
		}
		to := from
		for to < len(values) && !math.IsNaN(values[to]) {
			to++
		}
		var points strings.Builder
		for i := from; i < to; i++ {
			fmt.Fprintf(&points, " %.1f %.1f", at(i, len(values), width), height-1-(height-2)*values[i]/most)
		}
		first, last := at(from, len(values), width), at(to-1, len(values), width)
		fmt.Fprintf(&line, "M%sh.1", points.String())
		fmt.Fprintf(&area, "M%.1f %.0fL%sL%.1f %.0fZ", first, height, points.String(), last, height)
		from = to
	}
	if line.Len() == 0 {
		return ""
	}
	return fmt.Sprintf(`<path class="area" d="%s"/><path class="line" d="%s"/>`, area.String(), line.String())
}

// at returns the position of a value.
func at(i, n int, width float64) float64 { return width * float64(i) / float64(max(n-1, 1)) }

func orZero(value float64) float64 {
	if math.IsNaN(value) {
		return 0
	}
	return value
}

// over divides the time until end into equal parts, and returns the greatest value
// of each part, NaN for a part without samples.
func (d day) over(end time.Time, span time.Duration, parts int, of func(sample) (value float64, ok bool)) []float64 {
	values := slices.Repeat([]float64{math.NaN()}, parts)
	for _, s := range d {
		part := parts - 1 - int(math.Floor(float64(end.Sub(s.at))/float64(span)*float64(parts)))
		if value, ok := of(s); ok && part >= 0 && part < parts && !(values[part] > value) {
			values[part] = value
		}
	}
	return values
}

// rateText writes a rate per second.
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
