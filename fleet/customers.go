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
type customers map[string]tally

type tally struct {
	documents int64
	first     time.Time // when the first of them came
	latest    decision
}

type decision struct {
	name    string // a copy: the caller's string may be part of a large text
	at      time.Time
	rule    priority.Rule
	level   priority.Level
	count   int64
	load    float64
	pending int64
}

// count counts a document of a customer.
func (c customers) count(name string, latest decision) {
	if before, ok := c[name]; ok {
		latest.name = before.latest.name
		c[latest.name] = tally{before.documents + 1, before.first, latest}
		return
	}
	if len(c) < mostCustomers {
		latest.name = strings.Clone(name)
		c[latest.name] = tally{1, latest.at, latest}
		return
	}
	for name, other := range c { // as this one alone has no place
		if other.documents--; other.documents == 0 {
			delete(c, name)
		} else {
			c[name] = other
		}
	}
}

// backlogs are the latest decisions by load about the customers who had the most pending.
type backlogs map[string]decision

// remembered is how long a backlog is remembered: the longest lease.
const remembered = 24 * time.Hour

// note records a decision. With too many customers, it forgets the half with fewer pending
// documents.
func (b backlogs) note(name string, latest decision) {
	before, ok := b[name]
	if !ok {
		if len(b) >= mostCustomers {
			names := slices.SortedFunc(maps.Keys(b), func(x, y string) int { return cmp.Compare(b[y].pending, b[x].pending) })
			for _, name := range names[len(names)/2:] {
				delete(b, name)
			}
		}
		before.name = strings.Clone(name)
	}
	latest.name = before.name
	b[latest.name] = latest
}

// busiest returns the customers that a report names: those with the most documents in the
// window, then others with the most pending, then others with the most in the hour.
func busiest(now time.Time, window, hour customers, waiting backlogs) []Busy {
	var all []Busy
	seen := make(map[string]bool)
	// add adds up to most names, by number.
	add := func(most int, names []string, number func(name string) int64) {
		slices.SortFunc(names, func(x, y string) int {
			return cmp.Or(cmp.Compare(number(y), number(x)), cmp.Compare(window[y].latest.level, window[x].latest.level), strings.Compare(x, y))
		})
		for _, name := range names[:min(most, len(names))] {
			seen[name] = true
			latest := waiting[name]
			for _, other := range []decision{hour[name].latest, window[name].latest} {
				if !other.at.Before(latest.at) {
					latest = other
				}
			}
			all = append(all, Busy{
				Customer: name, Documents: window[name].documents,
				Rule: latest.rule, Level: latest.level, Count: latest.count, Load: latest.load, Ago: max(now.Sub(latest.at), 0), Pending: latest.pending,
			})
		}
	}
	other := func(name string) bool { return seen[name] }
	add(mostBusiest, slices.Collect(maps.Keys(window)), func(name string) int64 { return window[name].documents })
	add(mostOthers, slices.DeleteFunc(slices.Collect(maps.Keys(waiting)), other), func(name string) int64 { return waiting[name].pending })
	add(mostOthers, slices.DeleteFunc(slices.Collect(maps.Keys(hour)), other), func(name string) int64 { return hour[name].documents })
	return slices.Clip(all)
}
