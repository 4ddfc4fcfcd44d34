package fleet

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// mostCustomers is how many customers a step counts separately.
const mostCustomers = 1000

// customers counts the documents of at most mostCustomers customers, by the algorithm of
// Misra and Gries: exactly if there are no more, else never too high, and too low by at
// most a thousandth of all documents. So it keeps busy customers, however many others come.
type customers map[string]customer

type customer struct {
	documents int64
	first     time.Time // when the first of them came
	last      lastDecision
}

type lastDecision struct {
	name    string // a copy: the caller's string may be part of a large text
	at      time.Time
	rule    priority.Rule
	level   priority.Level
	count   int64
	load    float64
	pending int64
}

// count counts n documents of a customer.
func (c customers) count(name string, n int64, last lastDecision) {
	if known, ok := c[name]; ok {
		last.name = known.last.name
		c[last.name] = customer{known.documents + n, known.first, last}
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
		last.name = strings.Clone(name)
		c[last.name] = customer{n, last.at, last}
	}
}

// backlogs are the last decisions by load about the customers who had the most pending.
type backlogs map[string]lastDecision

// remembered is how long a backlog is remembered: the longest lease.
const remembered = 24 * time.Hour

// note records a decision. With too many customers, it forgets the half with fewer pending
// documents.
func (b backlogs) note(name string, last lastDecision) {
	known, ok := b[name]
	if !ok {
		if len(b) >= mostCustomers {
			names := slices.SortedFunc(maps.Keys(b), func(x, y string) int { return cmp.Compare(b[y].pending, b[x].pending) })
			for _, name := range names[len(names)/2:] {
				delete(b, name)
			}
		}
		known.name = strings.Clone(name)
	}
	last.name = known.name
	b[last.name] = last
}

// busiest returns the customers that a report names: those with the most documents in the
// window, then others with the most pending, then others with the most in the hour.
func busiest(now time.Time, window, hour customers, waiting backlogs) []Busy {
	var all []Busy
	seen := make(map[string]bool)
	// add adds up to most names, by number.
	add := func(most int, names []string, number func(name string) int64) {
		slices.SortFunc(names, func(x, y string) int {
			return cmp.Or(cmp.Compare(number(y), number(x)), cmp.Compare(window[y].last.level, window[x].last.level), strings.Compare(x, y))
		})
		for _, name := range names[:min(most, len(names))] {
			seen[name] = true
			last := waiting[name]
			for _, other := range []lastDecision{hour[name].last, window[name].last} {
				if !other.at.Before(last.at) {
					last = other
				}
			}
			all = append(all, Busy{
				Customer: name, Documents: window[name].documents,
				Rule: last.rule, Level: last.level, Count: last.count, Load: last.load, Ago: max(now.Sub(last.at), 0), Pending: last.pending,
			})
		}
	}
	other := func(name string) bool { return seen[name] }
	add(mostBusiest, slices.Collect(maps.Keys(window)), func(name string) int64 { return window[name].documents })
	add(mostOthers, slices.DeleteFunc(slices.Collect(maps.Keys(waiting)), other), func(name string) int64 { return waiting[name].pending })
	add(mostOthers, slices.DeleteFunc(slices.Collect(maps.Keys(hour)), other), func(name string) int64 { return hour[name].documents })
	return slices.Clip(all)
}
