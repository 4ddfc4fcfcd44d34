package pictures

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

var (
	blue  = color.RGBA{0x2f, 0x6f, 0xde, 0xff}
	green = color.RGBA{0x1b, 0x7f, 0x4d, 0xff}
	brown = color.RGBA{0x8a, 0x5a, 0x00, 0xff}
	gray  = color.RGBA{0x9a, 0xa4, 0xaf, 0xff}
	slate = color.RGBA{0x57, 0x60, 0x6a, 0xff}
	pale  = color.RGBA{0xe6, 0xea, 0xee, 0xff}
)

func colored(c color.Color, labels *plotter.Labels) *plotter.Labels {
	for i := range labels.TextStyle {
		labels.TextStyle[i].Color = c
	}
	return labels
}

// every has a tick at each multiple of a number.
func every(n int) plot.TickerFunc {
	return func(from, to float64) (ticks []plot.Tick) {
		for x := 0; float64(x) <= to; x += n {
			ticks = append(ticks, plot.Tick{Value: float64(x), Label: fmt.Sprint(x)})
		}
		return ticks
	}
}

func newPlot(title string) *plot.Plot {
	plot.DefaultFont.Variant, plotter.DefaultFont.Variant = "Sans", "Sans"
	plotter.DefaultFontSize = textSize
	p := plot.New()
	p.Title.Text = title
	p.Title.Padding = vg.Points(8)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.LineStyle.Width, axis.Tick.LineStyle.Width = 0, 0
		axis.Tick.Label.Font.Size = textSize
	}
	return p
}

func line(c color.Color, points ...plotter.XY) *plotter.Line {
	return &plotter.Line{XYs: points, LineStyle: draw.LineStyle{Color: c, Width: vg.Points(1.5)}}
}

func circles(c color.Color, radius float64, points ...plotter.XY) *plotter.Scatter {
	return &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: c, Radius: vg.Points(radius), Shape: draw.CircleGlyph{}}}
}

func squares(c color.Color, points plotter.XYs) *plotter.Scatter {
	return &plotter.Scatter{XYs: points, GlyphStyle: draw.GlyphStyle{Color: c, Radius: vg.Points(6), Shape: draw.BoxGlyph{}}}
}

// box is a rectangle.
func box(c color.Color, x, y, toX, toY float64) *plotter.Polygon {
	return &plotter.Polygon{XYs: []plotter.XYs{{{X: x, Y: y}, {X: toX, Y: y}, {X: toX, Y: toY}, {X: x, Y: toY}}}, Color: c}
}

// label is a text beside, or at, a point.
func label(x, y float64, align text.XAlignment, said string) *plotter.Labels {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{said}})
	if err != nil {
		panic(err) // there is a label for each point
	}
	labels.TextStyle[0].XAlign, labels.TextStyle[0].YAlign = align, text.YCenter
	labels.Offset.Y = vg.Points(1.5) // the center is that of capitals and descenders; most letters have neither
	return labels
}

// Pictures are shown 800 pixels wide: width inches of 100 pixels. Each is drawn as four, for sharp
// screens. Then all text has 16.7 pixels, and a page's has 16.
const (
	width    = 8
	dpi      = 2 * 100
	textSize = 12 // points
)

// encoded is a PNG of a plot, of a height in inches.
func encoded(p *plot.Plot, height float64) ([]byte, error) {
	canvas := vgimg.NewWith(vgimg.UseWH(width*vg.Inch, vg.Length(height)*vg.Inch), vgimg.UseDPI(dpi))
	p.Draw(draw.Crop(draw.New(canvas), vg.Points(8), -vg.Points(8), vg.Points(8), -vg.Points(8)))
	drawn := canvas.Image()
	small := image.NewPaletted(drawn.Bounds(), shades())
	for y := range small.Rect.Dy() {
		for x := range small.Rect.Dx() {
			small.Set(x, y, drawn.At(x, y))
		}
	}
	var out bytes.Buffer
	err := (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, small)
	return out.Bytes(), err
}

// shades are few colors, for small files: eight of each, from it to white.
func shades() color.Palette {
	var shades color.Palette
	for _, full := range []color.RGBA{{A: 0xff}, blue, green, brown, gray, slate, pale} {
		for step := range 8 {
			toWhite := func(c uint8) uint8 { return c + uint8((255-int(c))*step/7) }
			shades = append(shades, color.RGBA{toWhite(full.R), toWhite(full.G), toWhite(full.B), 0xff})
		}
	}
	return shades
}
