package simulation

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Contrast is a wait compared with the same wait under another choice, in seconds.
type Contrast struct {
	Wait, Than float64
	// Low and High are the 95 % interval of Wait ÷ Than.
	Low, High float64
	Felt      bool // the difference is large enough to matter
}

// Ratio returns Wait ÷ Than.
func (c Contrast) Ratio() float64 { return ratio(c.Wait, c.Than) }

// Shorter reports whether the wait is shorter, by so much that it is felt, and
// not by luck.
func (c Contrast) Shorter() bool { return c.Felt && c.High < 1 }

// Longer is the opposite of Shorter.
func (c Contrast) Longer() bool { return c.Felt && c.Low > 1 }

func ratio(wait, than float64) float64 {
	if wait == than {
		return 1 // also where nobody waits
	}
	return wait / than
}

// Comparison is one choice compared with another.
type Comparison struct{ LightP99, WorstTenth Contrast }

// Better reports whether a wait is certainly shorter, and none certainly longer.
func (c Comparison) Better() bool { return c.shorter() && !c.longer() }

// Worse is the opposite of Better.
func (c Comparison) Worse() bool { return c.longer() && !c.shorter() }

func (c Comparison) shorter() bool { return c.LightP99.Shorter() || c.WorstTenth.Shorter() }
func (c Comparison) longer() bool  { return c.LightP99.Longer() || c.WorstTenth.Longer() }

// idle reports whether no wait would be felt, beside a service of so many seconds.
func (c Comparison) idle(service float64) bool {
	return max(c.LightP99.Wait, c.LightP99.Than, c.WorstTenth.Wait, c.WorstTenth.Than) < felt(0, service)
}

// felt is the least difference that matters to who waits, and is served for so many
// seconds: a twentieth of both.
func felt(wait, service float64) float64 { return (wait + service) / 20 }

// compare compares two runs of the same workload, whose documents are served for so
// many seconds on average.
func compare(a, b *Choice, service float64) Comparison {
	// Few stretches vary less than the traffic does, so the interval is expanded as
	// Student's t is (Hesterberg, 2015: expanded percentiles).
	const n = stretches
	t := distuv.StudentsT{Sigma: 1, Nu: n - 1}.Quantile(0.975)
	tail := distuv.UnitNormal.CDF(-t * math.Sqrt(n/(n-1.)))
	contrast := func(measure string) Contrast {
		ratios := make([]float64, redraws)
		for i := range ratios {
			ratios[i] = ratio(a.redrawn[measure][i], b.redrawn[measure][i])
		}
		slices.Sort(ratios)
		wait, than := a.Judged[measure], b.Judged[measure]
		return Contrast{
			Wait: wait,
			Than: than,
			Low:  quantile(tail, ratios),
			High: quantile(1-tail, ratios),
			Felt: math.Abs(wait-than) >= felt(than, service),
		}
	}
	return Comparison{contrast(lightP99), contrast(worstTenth)}
}

// How often, and out of how many stretches of time, is drawn.
const (
	redraws         = 1000
	stretches       = 12
	streamOfRedraws = 64 // far from a workload's
)

// A redrawn is a measure of each redraw.
type redrawn map[string][]float64

// redraw says what the measured part of a workload might have been as well: it
// draws customers and stretches of time from it, with replacement, again and again,
// and measures what is left. It is the pigeonhole bootstrap (Owen, 2007).
//
// Both are drawn because documents are alike in both ways. Who is steady today is so
// tomorrow, so one customer's documents say less than as many customers' would. And
// the documents of a busy hour wait together, whoever sent them: customers alone,
// drawn again, would all have met the same few floods. Of two ways of counting that
// are equal, but have bad hours of their own, customers alone call one better in most
// traces, and both together in about one of twelve.
//
// Stretches are long, so that a flood is seldom cut in two. What is drawn with the
// same seed can be compared, draw by draw, between two runs of the same workload.
func redraw(w *Workload, starts []time.Duration, seed uint64) redrawn {
	part := newPart(w, starts)
	random := rand.New(rand.NewPCG(seed, streamOfRedraws))
	all := redrawn{}
	for len(all[lightP99]) < redraws {
		customers, times := draw(random, part.customers), draw(random, stretches)
		light, ok := part.lightP99(customers, times)
		if !ok {
			continue // no document of a light customer was drawn
		}
		all[lightP99] = append(all[lightP99], light)
		all[worstTenth] = append(all[worstTenth], part.worstTenth(customers, times))
	}
	return all
}

// draw draws so many times out of as many, and returns how often each was drawn.
func draw(random *rand.Rand, n int) []float64 {
	times := make([]float64, n)
	for range n {
		times[random.IntN(n)]++
	}
	return times
}

// part is what was measured, in pieces that can be drawn.
type part struct {
	customers int
	light     []lightWait // from the shortest
	cells     []cell      // by customer
}

// lightWait is the wait of a light customer's document.
type lightWait struct {
	customer, stretch int
	wait              float64
}

// cell is what one customer submitted in one stretch of time.
type cell struct {
	customer, stretch int
	documents, waited float64
}

func newPart(w *Workload, starts []time.Duration) part {
	var p part
	number := make(map[int32]int) // of the customers that are in it
	where := make(map[[2]int]int) // each cell is
	for i := range w.measured() {
		d := w.Documents[i]
		customer, known := number[d.Customer]
		if !known {
			customer = len(number)
			number[d.Customer] = customer
		}
		stretch := w.stretch(d.Submitted)
		wait := (starts[i] - d.Submitted).Seconds()
		if w.light(d.Customer) {
			p.light = append(p.light, lightWait{customer, stretch, wait})
		}
		at, known := where[[2]int{customer, stretch}]
		if !known {
			at = len(p.cells)
			where[[2]int{customer, stretch}] = at
			p.cells = append(p.cells, cell{customer: customer, stretch: stretch})
		}
		p.cells[at].documents++
		p.cells[at].waited += wait
	}
	p.customers = len(number)
	slices.SortFunc(p.light, func(a, b lightWait) int { return cmp.Compare(a.wait, b.wait) })
	slices.SortStableFunc(p.cells, func(a, b cell) int { return a.customer - b.customer })
	return p
}

// stretch returns the number of the stretch of time, of those measured, that a
// moment is in.
func (w *Workload) stretch(at time.Duration) int {
	return int(float64(at-w.From) / float64(w.To-w.From) * stretches)
}

func (w *Workload) light(customer int32) bool { return w.Groups[w.GroupOf[customer]] == Light }

// lightP99 returns the light customers' p99, or false if none was drawn.
func (p part) lightP99(customers, times []float64) (wait float64, ok bool) {
	drawn := 0.0
	for _, d := range p.light {
		drawn += customers[d.customer] * times[d.stretch]
	}
	sum := 0.0
	for _, d := range p.light {
		if sum += customers[d.customer] * times[d.stretch]; sum > 0 && sum >= 0.99*drawn {
			return d.wait, true
		}
	}
	return 0, false
}

// worstTenth returns the 90th percentile of the mean waits of the customers that
// were drawn, as often as they were.
func (p part) worstTenth(customers, times []float64) float64 {
	var means, weights []float64
	for from := 0; from < len(p.cells); {
		customer := p.cells[from].customer
		documents, waited := 0.0, 0.0
		for ; from < len(p.cells) && p.cells[from].customer == customer; from++ {
			documents += times[p.cells[from].stretch] * p.cells[from].documents
			waited += times[p.cells[from].stretch] * p.cells[from].waited
		}
		if documents > 0 && customers[customer] > 0 {
			means, weights = append(means, waited/documents), append(weights, customers[customer])
		}
	}
	stat.SortWeighted(means, weights)
	return stat.Quantile(0.9, stat.Empirical, means, weights)
}
