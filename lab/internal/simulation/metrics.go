package simulation

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"gonum.org/v1/gonum/stat"
)

// Measures are what was measured in one run, by name. Times are in seconds and
// their names end in _s. What does not exist (the wait of a group without
// documents) is not in it.
//
//	<group>_wait_mean_s      from when they are due to the start of service; also p50, p99, max
//	worst_tenth_wait_s       90th percentile of the customers' mean waits
//	jain, smallest_share     of the shares: what a customer was served in the time measured ÷ their max-min fair share
//	<group>_share            what a group was served ÷ its fair share
//	<group>_served           what a group was served ÷ what it sent
//	<group>_overtaken        the share of its documents that a newer one of the same customer overtook
//	finished_ratio           when the second flooder's last document began ÷ when the first one's did, since From
//
// The groups are the workload's, and lightest_half, the half of the customers
// with the fewest documents, without the customers that are apart.
type Measures map[string]float64

// Names of measures.
const (
	othersP99     = Others + "_wait_p99_s"
	usersP99      = Users + "_wait_p99_s"
	secondMean    = Second + "_wait_mean_s"
	lightP99      = Light + "_wait_p99_s"
	lightestP99   = "lightest_half_wait_p99_s"
	worstTenth    = "worst_tenth_wait_s"
	jainIndex     = "jain"
	smallestShare = "smallest_share"
	finishedRatio = "finished_ratio"
)

// measure measures a run.
func measure(w *Workload, servers int, starts []time.Duration) Measures {
	m := make(Measures)
	customers := measuredCustomers(w, starts)
	for group, name := range w.Groups {
		m.addGroup(name, w, starts, func(customer int32) bool { return int(w.GroupOf[customer]) == group })
	}
	lightest := lightestHalf(w, customers)
	m.addGroup("lightest_half", w, starts, func(customer int32) bool { return lightest[customer] })
	m.addWorstTenth(customers)
	m.addShares(w, servers, starts)
	m.addOvertaken(w, starts)
	m.addFinished(w, starts)
	return m
}

// addOvertaken says how many of the documents that were measured began after a newer one of the
// same customer, due later or enqueued after them.
func (m Measures) addOvertaken(w *Workload, starts []time.Duration) {
	documents, overtaken := make([]float64, len(w.Groups)), make([]float64, len(w.Groups))
	earliest := make(map[int32]time.Duration) // when a newer one began, by customer
	for i, d := range slices.Backward(w.Documents) {
		newer, ok := earliest[d.Customer]
		if d.Submitted >= w.From && d.Submitted < w.To {
			documents[w.GroupOf[d.Customer]]++
			if ok && newer < starts[i] {
				overtaken[w.GroupOf[d.Customer]]++
			}
		}
		if !ok || starts[i] < newer {
			earliest[d.Customer] = starts[i]
		}
	}
	for group, name := range w.Groups {
		if documents[group] > 0 {
			m[name+"_overtaken"] = overtaken[group] / documents[group]
		}
	}
}

func (m Measures) addFinished(w *Workload, starts []time.Duration) {
	finished := make(map[string]time.Duration)
	for i := range w.measured() {
		group := w.Groups[w.GroupOf[w.Documents[i].Customer]]
		finished[group] = max(finished[group], starts[i]-w.From)
	}
	if finished[Second] > 0 && finished[Flooder] > 0 {
		m[finishedRatio] = finished[Second].Seconds() / finished[Flooder].Seconds()
	}
}

// measuredCustomer is a customer with documents in the time measured.
type measuredCustomer struct {
	customer  int32
	documents int
	waited    float64 // in all
}

func measuredCustomers(w *Workload, starts []time.Duration) []measuredCustomer {
	all := make([]measuredCustomer, len(w.Customers))
	for i := range w.measured() {
		c := &all[w.Documents[i].Customer]
		c.customer = w.Documents[i].Customer
		c.documents++
		c.waited += (starts[i] - w.Documents[i].Submitted).Seconds()
	}
	return slices.DeleteFunc(all, func(c measuredCustomer) bool { return c.documents == 0 })
}

// measured goes over the indices of the documents in the time measured.
func (w *Workload) measured() func(yield func(int) bool) {
	from := sort.Search(len(w.Documents), func(i int) bool { return w.Documents[i].Submitted >= w.From })
	return func(yield func(int) bool) {
		for i := from; i < len(w.Documents) && w.Documents[i].Submitted < w.To; i++ {
			if !yield(i) {
				return
			}
		}
	}
}

func lightestHalf(w *Workload, customers []measuredCustomer) []bool {
	ordinary := slices.DeleteFunc(slices.Clone(customers), func(c measuredCustomer) bool { return w.Apart[w.GroupOf[c.customer]] })
	slices.SortStableFunc(ordinary, func(a, b measuredCustomer) int { return a.documents - b.documents })
	lightest := make([]bool, len(w.Customers))
	for _, c := range ordinary[:(len(ordinary)+1)/2] {
		lightest[c.customer] = true
	}
	return lightest
}

func (m Measures) addGroup(name string, w *Workload, starts []time.Duration, in func(customer int32) bool) {
	var waits []float64
	for i := range w.measured() {
		d := w.Documents[i]
		if !in(d.Customer) {
			continue
		}
		waits = append(waits, (starts[i] - d.Submitted).Seconds())
	}
	if len(waits) == 0 {
		return
	}
	slices.Sort(waits)
	m[name+"_wait_mean_s"] = stat.Mean(waits, nil)
	m[name+"_wait_p50_s"] = quantile(0.5, waits)
	m[name+"_wait_p99_s"] = quantile(0.99, waits)
	m[name+"_wait_max_s"] = waits[len(waits)-1]
}

// quantile returns the least of the sorted values that a share p of them does
// not exceed.
func quantile(p float64, sorted []float64) float64 {
	return stat.Quantile(p, stat.Empirical, sorted, nil)
}

func (m Measures) addWorstTenth(customers []measuredCustomer) {
	if len(customers) == 0 {
		return
	}
	means := make([]float64, len(customers))
	for i, c := range customers {
		means[i] = c.waited / float64(c.documents)
	}
	slices.Sort(means)
	m["worst_tenth_wait_s"] = quantile(0.9, means)
}

// addShares compares the service that customers got within the time measured
// with their fair share of it.
func (m Measures) addShares(w *Workload, servers int, starts []time.Duration) {
	demands, served := make([]float64, len(w.Customers)), make([]float64, len(w.Customers))
	for i, d := range w.Documents {
		if d.Submitted >= w.From && d.Submitted < w.To {
			demands[d.Customer] += d.Service.Seconds()
		}
		within := min(starts[i]+d.Service, w.To) - max(starts[i], w.From)
		served[d.Customer] += max(within, 0).Seconds()
	}
	fair := maxMinFair(demands, w.Weights, float64(servers)*(w.To-w.From).Seconds())
	var shares []float64
	groups, fairGroups, sent := make([]float64, len(w.Groups)), make([]float64, len(w.Groups)), make([]float64, len(w.Groups))
	for i := range fair {
		if fair[i] > 0 {
			shares = append(shares, served[i]/fair[i])
			groups[w.GroupOf[i]] += served[i]
			fairGroups[w.GroupOf[i]] += fair[i]
			sent[w.GroupOf[i]] += demands[i]
		}
	}
	for group, name := range w.Groups {
		if fairGroups[group] > 0 {
			m[name+"_share"] = groups[group] / fairGroups[group]
			m[name+"_served"] = groups[group] / sent[group]
		}
	}
	if len(shares) > 0 {
		m["jain"] = jain(shares)
		m["smallest_share"] = slices.Min(shares)
	}
}

// maxMinFair divides a capacity so that nobody gets more than their demand, and
// nobody could get more without taking it from one who has less, for their weight. Without
// weights, all are alike.
func maxMinFair(demands, weights []float64, capacity float64) []float64 {
	order, total := make([]int, len(demands)), 0.0
	weights = append(slices.Clone(weights), slices.Repeat([]float64{1}, len(demands)-len(weights))...)
	for i := range order {
		order[i] = i
		total += weights[i]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(demands[a]/weights[a], demands[b]/weights[b]) })
	shares := make([]float64, len(demands))
	for _, i := range order {
		shares[i] = min(demands[i], capacity*weights[i]/total)
		capacity -= shares[i]
		total -= weights[i]
	}
	return shares
}

// jain is Jain's fairness index: 1 if all are equal, 1/n if one has all.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, share := range shares {
		sum += share
		squares += share * share
	}
	if squares == 0 {
		return math.NaN()
	}
	return sum * sum / (float64(len(shares)) * squares)
}
