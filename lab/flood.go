package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"flag"
	"fmt"
	"image/color"
	"io"
	"math"
	"os"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

const floodHelp = `Flood draws how long small customers waited during a flood, as an SVG, from what a queue's
program has measured: go run ./examples/queues/asynq -waits waits.csv

`

func newFlood(*flag.FlagSet) (action, string) {
	return func(_ context.Context, with terminal, args []string) error {
		if len(args) != 1 {
			return wrongCall(fmt.Errorf("it takes one file, not %d", len(args)))
		}
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		defer file.Close()
		return drawFlood(file, with.stdout)
	}, floodHelp
}

// drawFlood draws what a program has written: with levels or without, customer, arrival
// and wait. The customer of most documents is the flood.
func drawFlood(from io.Reader, to io.Writer) error {
	rows, err := csv.NewReader(from).ReadAll()
	if err != nil {
		return err
	}
	documents := make(map[string]int)
	for _, row := range rows {
		documents[row[1]]++
	}
	waits := make(map[string]plotter.XYs) // with levels, and without
	began := math.Inf(1)                  // the flood
	for _, row := range rows[min(1, len(rows)):] {
		arrived, wrongArrival := strconv.ParseFloat(row[2], 64)
		waited, wrongWait := strconv.ParseFloat(row[3], 64)
		if err := cmp.Or(wrongArrival, wrongWait); err != nil {
			return err
		}
		if documents[row[1]] < len(rows)/2 {
			waits[row[0]] = append(waits[row[0]], plotter.XY{X: arrived, Y: waited})
		} else {
			began = min(began, arrived)
		}
	}

	plot.DefaultFont.Variant = "Sans"
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = "a document arrives at", "and waits"
	p.X.Tick.Marker, p.Y.Tick.Marker = wholeSeconds, wholeSeconds
	for _, line := range []struct {
		levels, name string
		color        color.Color
		above        float64 // how far the name is above the highest point
	}{
		{"without", "small customers, first come, first served", color.RGBA{R: 0xb0, G: 0x3a, B: 0x2e, A: 0xff}, 0},
		{"with", "the same, by level", color.RGBA{R: 0x1b, G: 0x7f, B: 0x4d, A: 0xff}, 0.2},
	} {
		points := waits[line.levels]
		if len(points) == 0 {
			return fmt.Errorf("the file has nothing %s levels", line.levels)
		}
		slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
		drawn, err := plotter.NewLine(points)
		if err != nil {
			return err
		}
		drawn.Color, drawn.Width = line.color, vg.Points(2)
		top := slices.MaxFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) })
		if err := label(p, line.name, plotter.XY{X: max(top.X, began) + 0.4, Y: top.Y + line.above}, line.color); err != nil {
			return err
		}
		p.Add(drawn)
	}
	p.X.Min, p.Y.Min = 0, 0
	p.Y.Max *= 1.3
	flood, err := plotter.NewLine(plotter.XYs{{X: began, Y: 0}, {X: began, Y: p.Y.Max}})
	if err != nil {
		return err
	}
	flood.Dashes = []vg.Length{vg.Points(3), vg.Points(3)}
	p.Add(flood)
	if err := label(p, "another customer sends 400 documents at once", plotter.XY{X: began + 0.05, Y: 0.92 * p.Y.Max}, color.Gray{Y: 0x60}); err != nil {
		return err
	}
	return save(p, to)
}

func label(p *plot.Plot, text string, at plotter.XY, c color.Color) error {
	labels, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{at}, Labels: []string{text}})
	if err != nil {
		return err
	}
	labels.TextStyle[0].Color = c
	labels.TextStyle[0].XAlign = draw.XLeft
	p.Add(labels)
	return nil
}

var wholeSeconds = plot.TickerFunc(func(from, to float64) (ticks []plot.Tick) {
	for second := int(from); second <= int(to); second++ {
		ticks = append(ticks, plot.Tick{Value: float64(second), Label: fmt.Sprint(second, " s")})
	}
	return ticks
})

// save writes a picture that needs no font of this machine's.
func save(p *plot.Plot, to io.Writer) error {
	writer, err := p.WriterTo(17*vg.Centimeter, 7*vg.Centimeter, "svg")
	if err != nil {
		return err
	}
	var svg bytes.Buffer
	if _, err := writer.WriteTo(&svg); err != nil {
		return err
	}
	_, err = to.Write(bytes.ReplaceAll(svg.Bytes(), []byte("Liberation Sans"), []byte("Liberation Sans,sans-serif")))
	return err
}
