package fleet

import (
	"cmp"
	"slices"
	"strings"

	"github.com/docpriority/priority"
)

// mostCustomers is how many customers a step counts separately.
const mostCustomers = 1000

// customers counts the documents of at most mostCustomers customers: exactly if there are
// no more, else never too high, and too low by at most a thousandth of all documents. So
// busy customers are among them, however many others come. (The algorithm is Misra and
// Gries's.)
type customers map[string]customer

type customer struct {
	documents int64
	last      lastTold
}

// lastTold is the last decision for a customer.
type lastTold struct {
	rule  priority.Rule
	level priority.Level
	count int64
	load  float64
}

// count counts n documents of a customer.
func (c customers) count(name string, n int64, told lastTold) {
	if known, ok := c[name]; ok {
		c[name] = customer{known.documents + n, told}
		return
	}
	if len(c) >= mostCustomers {
		fewest := n
		for _, known := range c {
			fewest = min(fewest, known.documents)
		}
		for other, known := range c {
			if known.documents -= fewest; known.documents == 0 {
				delete(c, other)
			} else {
				c[other] = known
			}
		}
		n -= fewest
	}
	if n > 0 {
		c[strings.Clone(name)] = customer{n, told} // the name may be part of a large text
	}
}

// most returns the n customers with the most documents.
func (c customers) most(n int) []Busy {
	busiest := make([]Busy, 0, len(c))
	for name, customer := range c {
		told := customer.last
		busiest = append(busiest, Busy{
			Customer: name, Documents: customer.documents, Rule: told.rule, Level: told.level, Count: told.count, Load: told.load,
		})
	}
	slices.SortFunc(busiest, busier)
	return slices.Clip(busiest[:min(n, len(busiest))])
}

func busier(a, b Busy) int {
	return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(b.Level, a.Level), cmp.Compare(a.Customer, b.Customer))
}
