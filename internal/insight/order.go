package insight

import (
	"cmp"
	"slices"

	"github.com/docpriority/priority"
)

// Shift is the group of customers with the same level by A and the same level by B.
// What matters is their order, not the levels' numbers.
type Shift struct {
	From      priority.Level `json:"from"`
	To        priority.Level `json:"to"`
	Customers int64          `json:"customers"`

	// Before is how many others each of them goes before by B, and does not by A; After
	// is how many others each of them goes after by B, and does not by A.
	Before int64 `json:"before"`
	After  int64 `json:"after"`
}

// Direction is -1 if the customers move forward by B: Before is more than After; 1
// if they move back; else 0.
func (s Shift) Direction() int { return cmp.Compare(s.After, s.Before) }

// Pairs is how many pairs of customers there are, and whose order changes.
type Pairs struct {
	All      int64 `json:"all"`
	Reversed int64 `json:"reversed"` // one goes before the other by A, and after it by B
	Split    int64 `json:"split"`    // they have one level by A, and two by B
	Merged   int64 `json:"merged"`   // they have two levels by A, and one by B
}

// Changed is how many pairs have another order by B than by A.
func (p Pairs) Changed() int64 { return p.Reversed + p.Split + p.Merged }

// order counts customers by their levels.
type order struct {
	customers map[[2]priority.Level]int64 // by A and by B
}

func (o *order) add(from, to priority.Level) {
	if o.customers == nil {
		o.customers = make(map[[2]priority.Level]int64)
	}
	o.customers[[2]priority.Level{from, to}]++
}

// shifts compares all customers with all others, level by level, so that more
// customers take no longer.
func (o *order) shifts() ([]Shift, Pairs) {
	var lastA, lastB priority.Level
	for levels := range o.customers {
		lastA, lastB = max(lastA, levels[0]), max(lastB, levels[1])
	}
	upTo := make([][]int64, lastA+1) // customers with at most these levels
	upTo[0] = make([]int64, lastB+1)
	for a := priority.First; a <= lastA; a++ {
		upTo[a] = make([]int64, lastB+1)
		for b := priority.First; b <= lastB; b++ {
			upTo[a][b] = o.customers[[2]priority.Level{a, b}] + upTo[a-1][b] + upTo[a][b-1] - upTo[a-1][b-1]
		}
	}
	// customers with a level from a1 to a2 by A, and from b1 to b2 by B
	within := func(a1, a2, b1, b2 priority.Level) int64 {
		return upTo[a2][b2] - upTo[a1-1][b2] - upTo[a2][b1-1] + upTo[a1-1][b1-1]
	}
	all := within(1, lastA, 1, lastB)
	shifts, twice := []Shift{}, Pairs{All: all * (all - 1)} // each pair is seen from both sides
	for levels, n := range o.customers {
		a, b := levels[0], levels[1]
		shifts = append(shifts, Shift{a, b, n, within(1, a, b+1, lastB), within(a, lastA, 1, b-1)})
		twice.Reversed += n * (within(1, a-1, b+1, lastB) + within(a+1, lastA, 1, b-1))
		twice.Split += n * (within(a, a, 1, lastB) - n)
		twice.Merged += n * (within(1, lastA, b, b) - n)
	}
	slices.SortFunc(shifts, func(x, y Shift) int { return cmp.Or(cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To)) })
	return shifts, Pairs{twice.All / 2, twice.Reversed / 2, twice.Split / 2, twice.Merged / 2}
}
