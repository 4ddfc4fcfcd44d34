package simulation

import "math"

// maxDots is how many dots a series has at most.
const maxDots = 400

// Dot is a customer, or several of one group who sent and waited about as much.
type Dot struct {
	Group     string
	Customers int
	Customer  string // "": several
	Sent      Spread // documents in the time measured
	Waited    Spread // the customers' mean waits, in seconds
}

// Spread is the least and the most of some values.
type Spread struct{ Least, Most float64 }

func (s *Spread) add(value float64) {
	s.Least, s.Most = min(s.Least, value), max(s.Most, value)
}

// newDots returns a dot for each customer. Where that were too many, customers
// who are close to each other share one.
func newDots(w *Workload, customers []measuredCustomer, groups []string, groupOf []uint8) []Dot {
	if len(customers) <= maxDots {
		return dotsOf(w, customers, groups, groupOf, 0)
	}
	for side := 1. / 8; ; side *= 2 {
		if dots := dotsOf(w, customers, groups, groupOf, side); len(dots) <= maxDots {
			return dots
		}
	}
}

// dotsOf returns the dots of squares whose sides are so many powers of ten long.
// Waits of less than 10 ms are alike. 0: each customer has a dot.
func dotsOf(w *Workload, customers []measuredCustomer, groups []string, groupOf []uint8, side float64) []Dot {
	type square struct {
		group, sent, waited int
	}
	var dots []Dot
	at := make(map[square]int)
	for i, c := range customers {
		group := groupOf[c.customer]
		where := square{group: i}
		if side > 0 {
			where = square{int(group), int(math.Log10(float64(c.documents)) / side), int(math.Log10(max(c.meanWait(), 0.01)/0.01) / side)}
		}
		sent, waited := float64(c.documents), c.meanWait()
		known, ok := at[where]
		if !ok {
			at[where] = len(dots)
			dots = append(dots, Dot{
				Group:     groups[group],
				Customers: 1,
				Customer:  w.Customers[c.customer],
				Sent:      Spread{sent, sent},
				Waited:    Spread{waited, waited},
			})
			continue
		}
		dot := &dots[known]
		dot.Customers++
		dot.Customer = ""
		dot.Sent.add(sent)
		dot.Waited.add(waited)
	}
	return dots
}
