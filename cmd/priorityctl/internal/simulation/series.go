package simulation

import (
	"math"
	"slices"
	"time"
)

const seriesBins = 120

// SeriesQuantiles are the shares that Series.Quantiles are for.
var SeriesQuantiles = []float64{0, .05, .1, .2, .3, .4, .5, .6, .7, .75, .8, .85, .9, .92, .94, .95, .96, .97, .98, .985, .99, .995, .999, 1}

// Halves of the customers, by how many documents they send.
const (
	LightestHalf  = "lightest_half"
	HeaviestHalf  = "heaviest_half"
	WorstCustomer = "worst_customer"
)

// Series is how a run went, for pictures. Its size has a bound, whatever the
// number of documents and customers.
type Series struct {
	From, Bin time.Duration
	// Groups are the names of those below: the workload's groups or, where it has
	// only one, its two halves.
	Groups []string
	// Waits are the mean waits of the documents whose service began in each bin, in
	// seconds, by group; NaN: there were none.
	Waits map[string][]float64
	// Quantiles are those of a group's waits at SeriesQuantiles, in seconds.
	Quantiles map[string][]float64
	// Dots are the customers.
	Dots []Dot
	// Levels counts the documents submitted in each bin by level, from 0. Nil:
	// without levels.
	Levels [][]int
}

func newSeries(w *Workload, starts []time.Duration, scheduler Scheduler) Series {
	to := w.From + 1
	for i := range w.measured() {
		to = max(to, starts[i]+1)
	}
	customers := measuredCustomers(w, starts)
	groups, groupOf := seriesGroups(w, customers)
	s := Series{
		From:      w.From,
		Bin:       (to-w.From)/seriesBins + 1,
		Groups:    groups,
		Waits:     make(map[string][]float64),
		Quantiles: make(map[string][]float64),
		Dots:      newDots(w, customers, groups, groupOf),
	}
	leveled, _ := scheduler.(*byLevel)
	if leveled != nil {
		s.Levels = make([][]int, len(leveled.hasWork))
		for level := range s.Levels {
			s.Levels[level] = make([]int, seriesBins)
		}
	}
	waits := make([][]float64, len(groups))
	sums, counts := newGrid(len(groups)), newGrid(len(groups))
	for i := range w.measured() {
		d := w.Documents[i]
		group, bin := groupOf[d.Customer], s.bin(starts[i])
		wait := (starts[i] - d.Submitted).Seconds()
		waits[group] = append(waits[group], wait)
		sums[group][bin] += wait
		counts[group][bin]++
		if leveled != nil {
			s.Levels[leveled.levels[i]-1][s.bin(d.Submitted)]++
		}
	}
	for group, name := range groups {
		means := make([]float64, seriesBins)
		for bin := range means {
			means[bin] = math.NaN()
			if counts[group][bin] > 0 {
				means[bin] = sums[group][bin] / counts[group][bin]
			}
		}
		s.Waits[name] = means
		if len(waits[group]) == 0 {
			continue
		}
		slices.Sort(waits[group])
		for _, p := range SeriesQuantiles {
			s.Quantiles[name] = append(s.Quantiles[name], quantile(p, waits[group]))
		}
	}
	return s
}

// seriesGroups returns the workload's groups. Where there is only one, who sends
// little and who sends much are told apart instead.
func seriesGroups(w *Workload, customers []measuredCustomer) (names []string, groupOf []uint8) {
	if len(w.Groups) > 1 {
		return w.Groups, w.GroupOf
	}
	lightest, _ := lightestAndWorst(w, customers)
	groupOf = make([]uint8, len(w.Customers))
	for customer := range groupOf {
		if !lightest[int32(customer)] {
			groupOf[customer] = 1
		}
	}
	return []string{LightestHalf, HeaviestHalf}, groupOf
}

func (s Series) bin(at time.Duration) int { return int((at - s.From) / s.Bin) }

func newGrid(rows int) [][]float64 {
	grid := make([][]float64, rows)
	for i := range grid {
		grid[i] = make([]float64, seriesBins)
	}
	return grid
}
