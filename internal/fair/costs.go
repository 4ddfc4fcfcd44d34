package fair

import (
	"slices"
	"sync"
	"time"
)

const (
	// MaxCost is the greatest relative cost, in thousandths. More is likely a
	// mistake.
	MaxCost = 100_000

	// enough is how many customers it takes to compare costs. In a median of three, no
	// single one decides.
	enough = 3
	// mostCustomers is how many customers are compared; the oldest are forgotten first.
	mostCustomers = 1000
)

// Costs has the recent costs of documents that a process has seen: their processing times, or
// the costs passed to Submit. A document's cost is compared with the median of the customers,
// and each customer has the median of their latest three documents. So one customer, whatever
// they send, moves the others' costs by at most one place in the order of the customers. It
// is safe for concurrent use. The zero Costs is ready to use.
type Costs struct {
	mu        sync.Mutex
	customers map[string]*recent
	names     []string // the customers, in a ring: the oldest is replaced next
	oldest    int
	medians   []float64 // each customer's, in ascending order
}

// Relative returns a cost in thousandths of the median, from 1 to MaxCost; 0: the cost or
// the median is not known.
func (c *Costs) Relative(cost float64) int64 {
	if cost <= 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.medians) < enough {
		return 0
	}
	thousandths := float64(1000 * (cost / middle(c.medians))) // rounded, as other languages do: no fused multiply-add
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
	latest.add(cost)
	at, _ := slices.BinarySearch(c.medians, latest.median())
	c.medians = slices.Insert(c.medians, at, latest.median())
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

// recent is what a customer's latest documents cost.
type recent struct {
	costs [3]float64
	next  int
}

func (r *recent) add(cost float64) {
	r.costs[r.next%len(r.costs)] = cost
	r.next++
}

func (r recent) median() float64 {
	costs := r.costs[:min(r.next, len(r.costs))]
	slices.Sort(costs)
	return middle(costs)
}

// middle returns the median; of two, the upper one, which makes others' costs less.
func middle(ascending []float64) float64 { return ascending[len(ascending)/2] }

// Each returns the seconds per document of n documents that took a time together.
func Each(took time.Duration, n int) float64 { return min(took, Day).Seconds() / float64(max(n, 1)) }
