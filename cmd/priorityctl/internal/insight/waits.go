package insight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/backlog"
	"github.com/docpriority/priority/internal/customer"
)

// slower is the factor by which level 1 must exceed its last hour, besides a second, to be
// slower than usual.
const slower = 3

func (s *Snapshot) waitsCheck(top *Top) Check {
	first, hour := top.Levels[0], s.Totals.FirstHour
	switch {
	case s.ReportsErr != nil:
		return finding("waits.unread")
	case s.Full():
		return finding("waits.full")
	case first.Done > 0:
		kind := "waits"
		if first.P95() > max(time.Second, slower*hour.P95()) {
			kind = "waits.slow"
		}
		return finding(kind, "waits", fmt.Sprintf("level 1: median %s, 95 of 100 within %s (last hour: %s, %s)",
			About(first.Median()), About(first.P95()), About(hour.Median()), About(hour.P95())))
	case first.Pending > 0:
		return Check{Documents: first.Pending}.as("waits.pending", "oldest", About(first.Oldest()))
	case first.ByCount > 0:
		return finding("waits.counted")
	}
	return finding("waits.none")
}

// few is how many documents that wait alone are named.
const few = 2

// alone reports whether so few documents wait at a level that it says more of them than of the level.
func (t *Top) alone(l Level) bool { return l.Stuck() && l.Pending <= few && t.passed(l) }

// passed reports whether a level's documents wait, and not for others: later ones are done, or all
// before them at once.
func (t *Top) passed(l Level) bool {
	return slices.ContainsFunc(t.Levels, func(other Level) bool { return other.Done > 0 }) &&
		!slices.ContainsFunc(t.Levels[:l.Level-1], func(before Level) bool { return 10*before.P95() >= l.Oldest() }) ||
		slices.ContainsFunc(t.Levels[l.Level:], func(later Level) bool { return later.Done > 0 })
}

// stuck returns the levels at which documents wait and none was done.
func (t *Top) stuck() (levels []Level) {
	for _, l := range t.Levels {
		if l.Stuck() && !t.alone(l) {
			levels = append(levels, l)
		}
	}
	return levels
}

// Stuck says at which levels documents wait and none was done; empty: at none.
func (t *Top) Stuck() string {
	if checks := t.stuckChecks(); checks != nil {
		return checks[0].Found
	}
	return ""
}

func (t *Top) stuckChecks() []Check {
	levels := t.stuck()
	if levels == nil {
		return nil
	}
	var c Check
	var ranges []string // such as "1–3" and "7"
	var oldest time.Duration
	atLeast, of := "", make(map[string]int64)
	for i, l := range levels {
		c.Documents, oldest = c.Documents+l.Pending, max(oldest, l.Oldest())
		if l.AtLeast {
			atLeast = "at least "
		}
		for name, n := range l.of {
			of[name] += n
		}
		if i == 0 || levels[i-1].Level+1 != l.Level {
			ranges = append(ranges, fmt.Sprint(l.Level))
			continue
		}
		end := &ranges[len(ranges)-1]
		from, _, _ := strings.Cut(*end, "–")
		*end = fmt.Sprintf("%s–%d", from, l.Level)
	}
	most := ""
	c.Customers = namesOf(of)
	if first := c.Customers[0].Exact(); of[first] > c.Documents/2 && len(of) > 1 {
		most = "; most are of " + Shown(first)
	}
	kind := "stuck"
	switch {
	case !slices.ContainsFunc(t.Levels, func(l Level) bool { return l.Done > 0 }):
		kind = "stuck.all"
	case t.passed(levels[0]):
		kind = "stuck.passed"
	}
	return []Check{c.as(kind, "levels", strings.Join(ranges, ", "), "pending", atLeast+Group(c.Documents), "oldest", ago(oldest), "most", most)}
}

// doneChecks name the documents that get no Done, or fail again and again. A process that submits
// and one that works may be two, so who does not call Done is told by numbers of the fleet.
func (s *Snapshot) doneChecks(top *Top) []Check {
	if s.Full() {
		return []Check{finding("done.full")}
	}
	var late []backlog.Document
	for _, l := range top.Levels {
		if late = append(late, l.late...); top.alone(l) {
			late = append(late, l.Waiting)
		}
	}
	var lost []Busy
	var c Check
	for _, b := range top.Busiest {
		if b.lostLately > 0 {
			lost, c.Documents = append(lost, b), c.Documents+b.lostLately
		}
	}
	kind, oldest, of := "done.lost", time.Duration(0), make(map[string]int64)
	switch {
	case c.Documents > few:
		for _, b := range lost {
			of[b.Exact()] = b.lostLately
		}
	case len(late) > few:
		kind, c.Documents = "done.late", int64(len(late))
		for _, d := range late {
			of[d.Customer]++
			oldest = max(oldest, d.Age)
		}
	default:
		return top.poisonChecks(lost, late)
	}
	c.Customers = namesOf(of)
	var suspects string
	c.processes, suspects = s.suspects()
	return []Check{c.as(kind, "suspects", suspects, "oldest", ago(oldest))}
}

// namesOf returns the customers, those with the most documents first.
func namesOf(documents map[string]int64) (names []customer.Name) {
	for _, name := range slices.SortedFunc(maps.Keys(documents), func(a, b string) int {
		return cmp.Or(cmp.Compare(documents[b], documents[a]), cmp.Compare(a, b))
	}) {
		names = append(names, customer.NameOf(name))
	}
	return names
}

// poisonChecks name the few documents that get no Done.
func (t *Top) poisonChecks(lost []Busy, late []backlog.Document) (checks []Check) {
	for _, b := range lost {
		checks = append(checks, poison(b.lostFirst, "longer than its lease, so it counts no more"))
	}
	for _, d := range late {
		though := "while others are done"
		if l := t.Levels[d.Level-1]; l.Done > 0 {
			though = "though 95 of 100 of the level were done within " + About(l.P95())
		}
		checks = append(checks, poison(d, though))
	}
	if checks == nil {
		checks = append(checks, finding("done"))
	}
	return checks
}

func poison(oldest backlog.Document, though string) Check {
	c := Check{Customers: []customer.Name{customer.NameOf(oldest.Customer)}, Documents: 1}
	return c.as("poison", "document", Shown(oldest.ID), "level", fmt.Sprint(oldest.Level), "oldest", ago(oldest.Age), "though", though)
}

// suspects names the workers whose numbers of the last hour fit documents without a Done: they
// submit and end none, while most others that submit end some; or they do neither, while others
// end documents.
func (s *Snapshot) suspects() (who []Worker, says string) {
	var silent, idle, both []Worker
	ending := 0
	for _, w := range s.Workers {
		switch {
		case !w.counts:
		case w.Submitted > 0 && w.Ended > 0:
			both = append(both, w)
		case w.Submitted > 0:
			silent = append(silent, w)
		case w.Ended == 0 && w.Here:
			idle = append(idle, w)
		}
		if w.Ended > 0 {
			ending++
		}
	}
	name := func(all []Worker) (names []string) {
		for _, w := range all {
			names = append(names, w.Called())
		}
		return names
	}
	switch {
	case len(silent) > 0 && len(both) >= len(silent):
		return silent, fmt.Sprintf(". %s submitted documents in the last hour and ended none, while %s did both", Named(name(silent)), Plural(int64(len(both)), "other"))
	case len(idle) > 0 && ending > 0:
		return idle, fmt.Sprintf(". %s neither submitted nor ended any in the last hour, while others did", Named(name(idle)))
	case s.Totals.Submitted > 0:
		return nil, fmt.Sprintf(". All workers together submitted %s in the last hour and ended %s", Group(s.Totals.Submitted), Group(s.Totals.Ended))
	}
	return nil, ""
}

// floodChecks name the customers who flood: those with a backlog beyond the last load.
func (s *Snapshot) floodChecks(top *Top) []Check {
	var some, overridden, counted Check
	var floods []Busy
	for _, b := range top.Busiest {
		if s.lastByCount(b.State) {
			counted.Customers = append(counted.Customers, b.Name)
		}
		if b.State != nil && b.State.PendingFlood > 0 {
			floods = append(floods, b)
		}
	}
	slices.SortStableFunc(floods, func(a, b Busy) int { return cmp.Compare(b.State.PendingFlood, a.State.PendingFlood) })
	for i, b := range floods {
		some.Customers, some.Documents = append(some.Customers, b.Name), some.Documents+b.State.PendingFlood
		switch {
		case i < mostListed:
			line := fmt.Sprintf("%s: %s", Shown(b.Exact()), Group(b.State.PendingFlood))
			if !b.FloodBegan.IsZero() {
				line += ", the first of them from " + b.FloodBegan.Format("15:04:05 UTC")
			}
			some.List = append(some.List, line)
		case i == mostListed:
			some.List = append(some.List, fmt.Sprintf("%d more: %s", len(floods)-i, s.Command("status -json")))
		}
		if b.State.NextLevel < b.State.RuleLevel {
			overridden.Customers = append(overridden.Customers, b.Name)
		}
	}
	checks := []Check{finding("floods")}
	if floods != nil {
		checks[0] = some.as("floods.some", "others", s.besideFloods(top))
	}
	if counted.Customers != nil {
		checks = append(checks, counted.as("floods.counted", "last", fmt.Sprint(s.Policies.Policy.Last())))
	}
	if overridden.Customers != nil {
		checks = append(checks, overridden.as("floods.overridden", "command", s.CommandFor(overridden.Customers[0].Exact(), "override end -why ''")))
	}
	return checks
}

// mostListed is how many floods a list has.
const mostListed = 5

// besideFloods says how long the documents before floods took, by what was measured.
func (s *Snapshot) besideFloods(top *Top) string {
	all, levels := make(fleet.Histogram), s.loads(top)
	counted := int64(0)
	for _, l := range levels {
		counted += l.ByCount
		for bucket, n := range s.Totals.Waits[l.Level] {
			all[bucket] += n
		}
	}
	says := fmt.Sprintf("how long others wait is not known: none at levels 1 to %d was done in the last minute", len(levels))
	if all.Count() > 0 {
		says = fmt.Sprintf("of the last minute's documents at levels 1 to %d, half were done within %s, 95 of 100 within %s", len(levels), About(all.Median()), About(all.P95()))
	}
	if counted > 0 {
		says += fmt.Sprintf("; of the %s by count that is not known", Group(counted))
	}
	return says
}
