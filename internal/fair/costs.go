package fair

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	// MaxCost is the greatest relative cost, in thousandths. More is likely a
	// mistake.
	MaxCost = 100_000

	// enough is how many customers it takes to compare costs. Of three, the middle one decides.
	enough = 3
	// mostCustomers is how many customers are compared; the oldest are forgotten first.
	mostCustomers = 1000
)

// Costs has the recent costs of documents that a process has seen: their processing times, or
// the costs passed to Submit. Each customer has the median of their latest three documents. A
// document's cost is compared with the usual cost: the geometric mean of the customers in the
// middle, without the fifth who are cheapest and the fifth who are dearest.
//
// No customer has a lever on the costs of others. Of n customers, m are in the middle, some three
// fifths. Whatever one customer sends, the middle shifts by one place at most, so the mean of
// its logarithms changes by the difference of its ends divided by m. If the dearest of the others
// costs d times as much as the cheapest, the usual cost changes at most by a factor of d^(1/m):
// not at all if the others are alike, and by at most 1 + 4/n if d is 2 (three customers), 5
// (eight) or 10 (a hundred).
//
// It is safe for concurrent use. The zero Costs is ready to use.
type Costs struct {
	mu        sync.Mutex
	customers map[string]*recent
	names     []string // the customers, in a ring: the oldest is replaced next
	oldest    int
	medians   []int64 // each customer's, in ascending order
	usual     float64 // 0: to be computed from the medians
}

// Relative returns a cost in thousandths of the usual cost, from 1 to MaxCost; 0: the cost or
// the usual cost is not known.
func (c *Costs) Relative(cost float64) int64 {
	if cost <= 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.medians) < enough {
		return 0
	}
	if c.usual == 0 {
		c.usual = geometricMean(withoutOuter(c.medians))
	}
	thousandths := float64(1000 * (cost / c.usual)) // rounded, as other languages do: no fused multiply-add
	return int64(min(max(thousandths+0.5, 1), MaxCost))
}

// Add adds a customer's document; 0: its cost is not known.
func (c *Costs) Add(customer string, cost float64) {
	if cost <= 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	latest := c.customers[customer]
	if latest == nil {
		latest = c.enter(customer)
	} else {
		c.leave(latest)
	}
	latest.add(logarithm(cost))
	at, _ := slices.BinarySearch(c.medians, latest.median())
	c.medians = slices.Insert(c.medians, at, latest.median())
	c.usual = 0
}

// logarithm returns a cost's natural logarithm in billionths. Of whole numbers any sum is exact,
// in every language.
func logarithm(cost float64) int64 {
	billionths := float64(1e9 * math.Log(cost)) // rounded, see Relative
	return int64(math.Floor(billionths + 0.5))
}

// withoutOuter leaves a fifth out at either end, rounded; of three or more, one at least.
func withoutOuter(ascending []int64) []int64 {
	outer := (len(ascending) + 2) / 5
	return ascending[outer : len(ascending)-outer]
}

// geometricMean returns the geometric mean of costs, by their logarithms.
func geometricMean(logarithms []int64) float64 {
	var sum int64
	for _, l := range logarithms {
		sum += l
	}
	return math.Exp(float64(sum) / float64(len(logarithms)) / 1e9)
}

// enter makes room for a customer. The caller holds mu.
func (c *Costs) enter(customer string) *recent {
	if c.customers == nil {
		c.customers = make(map[string]*recent)
	}
	if len(c.names) < mostCustomers {
		c.names = append(c.names, customer)
	} else {
		c.leave(c.customers[c.names[c.oldest]])
		delete(c.customers, c.names[c.oldest])
		c.names[c.oldest] = customer
		c.oldest = (c.oldest + 1) % mostCustomers
	}
	latest := new(recent)
	c.customers[customer] = latest
	return latest
}

// leave takes a customer's median out. The caller holds mu.
func (c *Costs) leave(latest *recent) {
	at, _ := slices.BinarySearch(c.medians, latest.median())
	c.medians = slices.Delete(c.medians, at, at+1)
}

// recent is what a customer's latest documents cost, in logarithms.
type recent struct {
	costs [3]int64
	next  int
}

func (r *recent) add(cost int64) {
	r.costs[r.next%len(r.costs)] = cost
	r.next++
}

// median returns the median; of two, the greater one, which makes others' costs less.
func (r recent) median() int64 {
	costs := r.costs[:min(r.next, len(r.costs))]
	slices.Sort(costs)
	return costs[len(costs)/2]
}

// Each returns the seconds per document of n documents that took a time together.
func Each(took time.Duration, n int) float64 { return min(took, Day).Seconds() / float64(max(n, 1)) }
