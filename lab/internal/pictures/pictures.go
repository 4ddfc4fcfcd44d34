// Package pictures draws what the documents show, by gonum/plot.
package pictures

import (
	"context"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/lab/internal/simulation"
	"github.com/docpriority/priority/memory"
	"github.com/docpriority/priority/prioritytest"
)

// Flood draws how long documents wait while one customer's upload is processed: first
// come, first served, and by level.
func Flood() ([]byte, error) {
	schedulers := []string{simulation.FirstCome, simulation.Rule, simulation.Submit}
	w, runs, err := simulated("occasional-flood", schedulers)
	if err != nil {
		return nil, err
	}
	p := newPlot("One customer uploads 10,000 documents: how long everybody else waits")
	p.X.Label.Text, p.Y.Label.Text = "minutes since the upload", "minutes of waiting"
	p.X.Max, p.Y.Max = 60, 22.5
	p.X.Tick.Marker, p.Y.Tick.Marker = every(10), every(5)
	p.Add(plotter.NewGrid())
	var longest, done time.Duration // of both rules
	for i, starts := range runs {
		waits, upload := floodWaits(w, starts)
		if schedulers[i] == simulation.FirstCome {
			said := fmt.Sprintf("first come, first served: up to %.0f minutes\n(the upload takes %.0f minutes)", highest(waits), upload.Minutes())
			p.Add(line(brown, waits...), colored(brown, label(12, 18.6, text.XLeft, said)))
			continue
		}
		p.Add(line(green, waits...))
		longest = max(longest, time.Duration(highest(waits)*float64(time.Minute)))
		done = max(done, upload)
	}
	said := fmt.Sprintf("by level, by either rule: up to %.0f seconds\n(the upload takes %.0f minutes)", longest.Seconds(), done.Minutes())
	p.Add(colored(green, label(12, 2.3, text.XLeft, said)))
	return encoded(p, 3.3)
}

// simulated returns when each document of a scenario starts, by each scheduler.
func simulated(scenario string, schedulers []string) (w *simulation.Workload, runs [][]time.Duration, err error) {
	found, err := simulation.FindScenario(scenario)
	if err != nil {
		return nil, nil, err
	}
	o := simulation.Options{Servers: 16, Policy: priority.DefaultPolicy()}
	w = found.Workload(1)
	for _, name := range schedulers {
		scheduler, err := simulation.NewScheduler(name, w, o, 1)
		if err != nil {
			return nil, nil, err
		}
		starts, err := simulation.Run(w, o.Servers, scheduler)
		if err != nil {
			return nil, nil, err
		}
		runs = append(runs, starts)
	}
	return w, runs, nil
}

// floodWaits returns the longest wait of each half-minute, of all but the flooder, and how
// long the flooder's last document waits.
func floodWaits(w *simulation.Workload, starts []time.Duration) (waits plotter.XYs, upload time.Duration) {
	flooder := slices.Index(w.Customers, simulation.Flooder)
	for i, d := range w.Documents {
		wait := starts[i] - d.Submitted
		switch {
		case int(d.Customer) == flooder:
			upload = max(upload, wait)
		case d.Submitted >= w.From:
			minute := float64((d.Submitted-w.From)/(30*time.Second)) / 2
			if len(waits) == 0 || waits[len(waits)-1].X < minute {
				waits = append(waits, plotter.XY{X: minute})
			}
			last := &waits[len(waits)-1]
			last.Y = max(last.Y, wait.Minutes())
		}
	}
	return waits, upload
}

func highest(points plotter.XYs) (y float64) {
	for _, point := range points {
		y = max(y, point.Y)
	}
	return y
}

// Rule draws each document of a customer who pauses once.
func Rule() ([]byte, error) {
	const beforeThePause, afterwards, gap = 24, 3, 3
	clock := new(prioritytest.Clock)
	store := prioritytest.NewStore(clock, nil)
	p := newPlot("Next: each document counts down, and a pause starts over")
	var documents plotter.XYs
	var counts, levels []plot.Tick
	for i := range beforeThePause + afterwards {
		x := float64(i + 1)
		if i == beforeThePause {
			clock.Advance(priority.DefaultPolicy().ResetInterval + time.Millisecond)
		}
		if i >= beforeThePause {
			x += gap
		}
		decision, err := store.Next(context.Background(), "acme")
		if err != nil {
			return nil, err
		}
		documents = append(documents, plotter.XY{X: x, Y: -float64(decision.Level)})
		if i%2 == 0 || i >= beforeThePause { // there is room for each second one
			counts = append(counts, plot.Tick{Value: x, Label: fmt.Sprint(decision.Count)})
		}
	}
	for level := priority.First; level <= store.Last(); level++ {
		levels = append(levels, plot.Tick{Value: -float64(level), Label: fmt.Sprint(level)})
	}
	p.X.Label.Text, p.Y.Label.Text = "count", "level"
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.ConstantTicks(counts), plot.ConstantTicks(levels)
	pause := line(gray, plotter.XY{X: beforeThePause + 2, Y: -0.5}, plotter.XY{X: beforeThePause + 2, Y: -9.5})
	pause.Dashes = []vg.Length{vg.Points(4), vg.Points(4)}
	said := fmt.Sprintf("more than %.0f min without a document", priority.DefaultPolicy().ResetInterval.Minutes())
	grid := plotter.NewGrid()
	grid.Vertical.Width = 0
	p.Add(grid, pause, squares(blue, documents), label(beforeThePause+1.6, -2.5, text.XRight, said))
	return encoded(p, 3.3)
}

// Overview draws where the module sits.
func Overview() ([]byte, error) {
	p := newPlot("")
	p.HideAxes()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = 0, 800, 0, 300 // as many as the picture has pixels
	place := func(c color.Color, x, y, wide, high float64, said string) {
		p.Add(box(c, x, y, x+wide, y+high), colored(color.White, label(x+wide/2, y+high/2, text.XCenter, said)))
	}
	place(slate, 10, 200, 170, 80, "your service\n(producer)")
	place(slate, 620, 200, 170, 80, "your workers")
	place(brown, 310, 15, 180, 70, "Redis")
	for i, level := range []string{"level 1", "level 2", "…", "level 9"} {
		place(blue, 320, 262-22*float64(i), 160, 20, level)
	}
	p.Add(label(400, 180, text.XCenter, "your queue"))
	for _, arrow := range []struct {
		from, to, at plotter.XY
		said         string
	}{
		{plotter.XY{X: 95, Y: 198}, plotter.XY{X: 308, Y: 50}, plotter.XY{X: 110, Y: 90}, "1. Submit:\nwhich level?"},
		{plotter.XY{X: 308, Y: 50}, plotter.XY{X: 95, Y: 198}, plotter.XY{X: 110, Y: 90}, ""}, // the answer
		{plotter.XY{X: 180, Y: 240}, plotter.XY{X: 318, Y: 240}, plotter.XY{X: 248, Y: 256}, "2. enqueue"},
		{plotter.XY{X: 482, Y: 240}, plotter.XY{X: 618, Y: 240}, plotter.XY{X: 550, Y: 256}, "3. level 1 first"},
		{plotter.XY{X: 705, Y: 200}, plotter.XY{X: 492, Y: 50}, plotter.XY{X: 680, Y: 90}, "4. Done"},
	} {
		dx, dy := arrow.to.X-arrow.from.X, arrow.to.Y-arrow.from.Y
		dx, dy = 10*dx/math.Hypot(dx, dy), 10*dy/math.Hypot(dx, dy)
		tip := plotter.XYs{arrow.to, {X: arrow.to.X - dx - dy/2, Y: arrow.to.Y - dy + dx/2}, {X: arrow.to.X - dx + dy/2, Y: arrow.to.Y - dy - dx/2}}
		p.Add(line(color.Black, arrow.from, arrow.to), &plotter.Polygon{XYs: []plotter.XYs{tip}, Color: color.Black},
			label(arrow.at.X, arrow.at.Y, text.XCenter, arrow.said))
	}
	return encoded(p, 3)
}

// Load draws the levels by load, and how three customers get theirs.
func Load() ([]byte, error) {
	const most = 20 // a power of 2
	p := newPlot("Submit: load = recent × pending × cost")
	p.HideY()
	p.X.Label.Text = "load"
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -0.2, most, -0.4, 4.6
	policy, below := priority.DefaultPolicy(), 0.0
	var bounds []plot.Tick
	for i, load := range append(policy.Loads, 1<<most) {
		bound, level := math.Log2(load), fmt.Sprintf("level %d", i+1)
		shade := color.Color(pale)
		if i%2 == 1 {
			shade = color.White
		}
		if i == len(policy.Loads) {
			level = fmt.Sprintf("a flood: %d–%d", i+1, policy.Last())
		} else {
			bounds = append(bounds, plot.Tick{Value: bound, Label: fmt.Sprint(load)})
		}
		p.Add(box(shade, below, -0.4, bound, 4.1), label((below+bound)/2, 4.35, text.XCenter, level))
		below = bound
	}
	p.X.Tick.Marker = plot.ConstantTicks(append(bounds, plot.Tick{Value: 0, Label: "1"}))
	for i, customer := range []struct {
		who         string
		all, atOnce int
	}{
		{"sends three documents now and then", 3, 3},
		{"sends two at a time all day", 600, 2},
		{"sends a thousand at once", 1000, 1000},
	} {
		path, levels, err := latest(customer.all, customer.atOnce)
		if err != nil {
			return nil, err
		}
		c, y := []color.Color{blue, green, brown}[i], 3-1.5*float64(i)
		for at := range path {
			path[at].Y = y
		}
		said := fmt.Sprintf("%s: levels %d to %d", customer.who, levels[0], levels[len(levels)-1])
		p.Add(circles(c, 4, path...), colored(c, label(0.2, y+0.5, text.XLeft, said)))
	}
	return encoded(p, 3)
}

// latest returns the last documents that a customer sends at once who has the earlier ones
// done: the logarithms of their loads, and the levels.
func latest(all, atOnce int) (path plotter.XYs, levels []priority.Level, err error) {
	store := prioritytest.NewStore(new(prioritytest.Clock), nil)
	for from := 0; from < all; from += atOnce {
		ids := make([]string, atOnce)
		for i := range ids {
			ids[i] = fmt.Sprint(from + i)
		}
		decisions, err := store.SubmitN(context.Background(), "acme", named.Documents(ids...))
		if err == nil {
			_, err = store.DoneN(context.Background(), "acme", ids, 0)
		}
		if err != nil {
			return nil, nil, err
		}
		path, levels = nil, nil
		for _, decision := range decisions {
			path = append(path, plotter.XY{X: math.Log2(decision.Load)})
			levels = append(levels, decision.Level)
		}
	}
	return path, levels, nil
}

// Turns draws when two floods are done, first come, with nine levels and with more turns.
func Turns() ([]byte, error) {
	w, runs, err := simulated("second-flood", []string{simulation.FirstCome, simulation.Submit, simulation.SubmitTurns})
	if err != nil {
		return nil, err
	}
	p := newPlot("A flood of 10,000 documents, and one of 2,000 five minutes later: when each is done")
	p.X.Label.Text = "minutes since the first flood"
	p.X.Min, p.X.Max, p.X.Tick.Marker = 0, 65, every(10)
	p.NominalY("22 levels", "9 levels", "first come")
	for i, starts := range runs {
		for j, flood := range []string{simulation.Flooder, simulation.Second} {
			var from, to time.Duration
			for at, d := range w.Documents {
				if w.Customers[d.Customer] == flood {
					from, to = d.Submitted-w.From, max(to, starts[at]+d.Service-w.From)
				}
			}
			y := float64(len(runs)-1-i) - 0.35*float64(j)
			c := []color.Color{brown, blue}[j]
			p.Add(box(c, from.Minutes(), y, to.Minutes(), y+0.3),
				colored(color.White, label(from.Minutes()+1, y+0.15, text.XLeft, []string{"the first", "the second"}[j])),
				label(to.Minutes()+0.7, y+0.15, text.XLeft, fmt.Sprintf("%.0f min", to.Minutes())))
		}
	}
	return encoded(p, 3)
}

// Levels draws some documents as they arrive, and as a worker takes them.
func Levels() ([]byte, error) {
	type document struct {
		customer string
		level    priority.Level
		arrived  int
	}
	var documents []document
	store := new(memory.Store)
	for i, customer := range strings.Fields("archive archive archive archive archive archive archive bakery archive archive clinic bakery") {
		decision, err := store.Submit(context.Background(), customer, priority.Document{ID: fmt.Sprint(i)})
		if err != nil {
			return nil, err
		}
		documents = append(documents, document{customer, decision.Level, i})
	}
	taken := slices.Clone(documents)
	slices.SortStableFunc(taken, func(a, b document) int { return int(a.level - b.level) })
	p := newPlot("A worker takes level 1 first, and within a level what came first")
	p.HideAxes()
	p.X.Min, p.X.Max, p.Y.Min, p.Y.Max = -2, float64(len(documents))-0.5, -0.9, 1.3
	p.Add(label(-0.6, 1, text.XRight, "arrive"), label(-0.6, 0, text.XRight, "are taken"))
	colors := map[string]color.Color{"archive": brown, "bakery": blue, "clinic": green}
	for i, d := range taken {
		from, to := plotter.XY{X: float64(d.arrived), Y: 1}, plotter.XY{X: float64(i), Y: 0}
		p.Add(line(colors[d.customer], from, to), circles(colors[d.customer], 10, from, to))
		for _, at := range []plotter.XY{from, to} {
			p.Add(colored(color.White, label(at.X, at.Y, text.XCenter, fmt.Sprint(d.level))))
		}
	}
	for i, customer := range []string{"archive", "bakery", "clinic"} {
		at := plotter.XY{X: 2 * float64(i), Y: -0.7}
		p.Add(circles(colors[customer], 5, at), label(at.X+0.3, at.Y, text.XLeft, customer))
	}
	p.Add(label(6, -0.7, text.XLeft, "the figure is the level"))
	return encoded(p, 2.7)
}
