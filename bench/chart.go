package main

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// chart is the bars of one or more panels, drawn as an SVG that follows the
// reader's choice of light or dark.
type chart struct {
	title  string
	panels []panel
}

// panel has a bar for each contender, from 0, with its spread.
type panel struct {
	title string
	rows  []chartRow
}

type chartRow struct {
	name                string
	median, least, most float64
}

func (p *panel) add(name string, ratios samples) {
	p.rows = append(p.rows, chartRow{name, ratios.median(), ratios.least(), ratios.most()})
}

// Sizes in pixels.
const (
	chartWidth = 760
	barsFrom   = 190 // the names are left of it
	barsTo     = 690 // the figures are right of the bars
	rowHeight  = 24
	panelHead  = 46
)

// The colours are those of text, lines and bars. The module's own bars stand out.
const chartStyle = `
  text { font: 13px system-ui, sans-serif; fill: #1f2328 }
  .title { font-size: 16px; font-weight: 600 }
  .panel { font-weight: 600 }
  .name { text-anchor: end }
  .figure { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
  .bar { fill: #9aa4af }
  .own { fill: #2f6fde }
  .spread, .one { stroke: #1f2328; fill: none }
  .one { stroke-dasharray: 3 3; opacity: 0.5 }
  .paper { fill: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3 }
    .bar { fill: #6b7683 }
    .own { fill: #5b93f5 }
    .spread, .one { stroke: #e6edf3 }
    .paper { fill: #0d1117 }
    .figure { stroke: #0d1117 }
  }
`

// svg draws the chart. The same figures give the same bytes.
func (c *chart) svg() []byte {
	height := 40
	for _, panel := range c.panels {
		height += panelHead + rowHeight*len(panel.rows)
	}
	height += 16
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%[1]d" height="%[2]d" role="img">`+"\n",
		chartWidth, height)
	fmt.Fprintf(&out, "<title>%s</title>\n<style>%s</style>\n", escape(c.title), chartStyle)
	fmt.Fprintf(&out, `<rect class="paper" width="%d" height="%d"/>`+"\n", chartWidth, height)
	fmt.Fprintf(&out, `<text class="title" x="16" y="28">%s</text>`+"\n", escape(c.title))
	top := 40
	for _, panel := range c.panels {
		panel.draw(&out, top)
		top += panelHead + rowHeight*len(panel.rows)
	}
	out.WriteString("</svg>\n")
	return []byte(out.String())
}

// draw draws the panel from a height on.
func (p panel) draw(out *strings.Builder, top int) {
	fmt.Fprintf(out, `<text class="panel" x="16" y="%d">%s</text>`+"\n", top+24, escape(p.title))
	// One round that was disturbed shall not make all bars short.
	longest, largest := 1.0, 1.0
	for _, row := range p.rows {
		longest, largest = max(longest, row.most), max(largest, row.median)
	}
	longest = min(longest, 1.5*largest)
	x := func(figure float64) float64 { return barsFrom + (barsTo-barsFrom)*min(figure/longest, 1) }
	rows := top + panelHead - 12
	fmt.Fprintf(out, `<path class="one" d="M%.1f %dV%d"/>`+"\n", x(1), rows, rows+rowHeight*len(p.rows))
	for i, row := range p.rows {
		middle := rows + rowHeight*i + rowHeight/2
		class := "bar"
		if row.name == nextName || row.name == batchedName {
			class = "bar own"
		}
		fmt.Fprintf(out, `<text class="name" x="%d" y="%d">%s</text>`, barsFrom-10, middle+5, escape(row.name))
		fmt.Fprintf(out, `<rect class="%s" x="%d" y="%d" width="%.1f" height="%d"/>`,
			class, barsFrom, middle-8, x(row.median)-barsFrom, 16)
		for _, end := range []float64{row.least, row.most} {
			if end <= longest { // otherwise it is out of sight
				fmt.Fprintf(out, `<path class="spread" d="M%.1f %dv8"/>`, x(end), middle-4)
			}
		}
		fmt.Fprintf(out, `<path class="spread" d="M%.1f %dH%.1f"/>`, x(row.least), middle, x(row.most))
		fmt.Fprintf(out, `<text class="figure" x="%.1f" y="%d">%s</text>`+"\n", x(row.most)+8, middle+5, ratio(row.median))
	}
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes everything
	return out.String()
}
