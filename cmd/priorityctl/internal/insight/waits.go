package insight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/backlog"
	"github.com/docpriority/priority/internal/customer"
)

// slower is the factor by which level 1 must exceed its last hour, besides a second, to be
// slower than usual.
const slower = 3

func (s *Snapshot) waitsCheck(top *Top) Check {
	first, hour := top.Levels[0], s.Totals.FirstHour
	kind := "waits"
	switch {
	case s.ReportsErr != nil:
		kind = "waits.unread"
	case s.Full():
		kind = "waits.full"
	case first.Done == 0 && first.Pending > 0:
		kind = "waits.pending"
	case first.Done == 0 && len(s.Totals.ByCount) > 0:
		kind = "waits.counted"
	case first.Done == 0:
		kind = "waits.none"
	case first.P95() > max(time.Second, slower*hour.P95()):
		kind = "waits.slow"
	}
	return Check{Documents: first.Pending}.as(kind, "median", About(first.Median()), "p95", About(first.P95()),
		"hour", About(hour.Median())+", "+About(hour.P95()), "oldest", About(first.Oldest()))
}

// Stuck says at which levels documents wait and none was done; empty: at none.
func (t *Top) Stuck() string {
	if checks := t.stuckChecks(); checks != nil {
		return checks[0].Found
	}
	return ""
}

func (t *Top) stuckChecks() []Check {
	kind, atLeast, ranges, oldest := "stuck.all", "", []string(nil), time.Duration(0) // ranges such as "1–3" and "7"
	passed := false
	var documents []backlog.Document
	var pending int64
	for i, l := range t.Levels {
		if l.Done > 0 {
			kind = "stuck"
		}
		if !l.Stuck() {
			continue
		}
		documents, pending, oldest = append(documents, l.documents...), pending+l.Pending, max(oldest, l.Oldest())
		passed = passed || l.longest > l.late
		if l.AtLeast {
			atLeast = "at least "
		}
		if i == 0 || !t.Levels[i-1].Stuck() {
			ranges = append(ranges, fmt.Sprint(l.Level))
			continue
		}
		end := &ranges[len(ranges)-1]
		from, _, _ := strings.Cut(*end, "–")
		*end = fmt.Sprintf("%s–%d", from, l.Level)
	}
	if ranges == nil {
		return nil
	}
	if passed {
		kind = "stuck.passed"
	}
	c := about(documents)
	c.Documents = pending
	return []Check{c.as(kind, "levels", strings.Join(ranges, ", "), "pending", atLeast+Group(pending), "oldest", ago(oldest))}
}

// about returns a check of documents, which has the customers with most of them first.
func about(documents []backlog.Document) Check {
	of := make(map[string]int)
	c := Check{Documents: int64(len(documents))}
	for _, d := range documents {
		if of[d.Customer]++; of[d.Customer] == 1 {
			c.Customers = append(c.Customers, customer.NameOf(d.Customer))
		}
	}
	slices.SortStableFunc(c.Customers, func(a, b customer.Name) int { return cmp.Compare(of[b.Exact()], of[a.Exact()]) })
	return c
}

// few is how many documents without a Done are named each.
const few = 2

// doneChecks name the documents that get no Done: those that left by their lease, and those that wait
// while others are done.
func (s *Snapshot) doneChecks(top *Top) (checks []Check) {
	var lost, late []backlog.Document
	for _, b := range top.Busiest {
		lost = append(lost, b.lost...)
	}
	for _, l := range top.Levels {
		for _, d := range l.documents {
			if d.Age > l.late && !l.stuck {
				late = append(late, d)
			}
		}
	}
	switch {
	case s.Full():
		return []Check{finding("done.full")}
	case lost == nil && late == nil:
		return []Check{finding("done")}
	}
	return append(s.withoutDone(top, "done.lost", lost), s.withoutDone(top, "done.late", late)...)
}

func (s *Snapshot) withoutDone(top *Top, kind string, missing []backlog.Document) (checks []Check) {
	if len(missing) <= few {
		for _, d := range missing {
			account, _ := s.isUser(d.Customer)
			kind := "poison.new"
			if slices.ContainsFunc(top.Busiest, func(b Busy) bool {
				return b.State != nil && b.State.Latency > 0 && (b.Exact() == d.Customer || b.Exact() == account)
			}) {
				kind = "poison"
			}
			checks = append(checks, about([]backlog.Document{d}).as(kind, "document", Shown(d.ID), "level", fmt.Sprint(d.Level), "oldest", ago(d.Age)))
		}
		return checks
	}
	oldest := slices.MaxFunc(missing, func(a, b backlog.Document) int { return cmp.Compare(a.Age, b.Age) })
	c, suspects := about(missing), ""
	c.processes, suspects = s.suspects()
	return []Check{c.as(kind, "oldest", ago(oldest.Age), "suspects", suspects)}
}

// settled is how long a worker has been here before it can be suspected.
const settled = 30 * time.Second

// suspects names the workers whose numbers of the last hour fit documents without a Done: they
// submit and end none, while as many end what they submit; or neither, while others end documents.
// Where processes end what others submit, one that only submits is none, and where an older
// version's numbers are not known, nobody is.
func (s *Snapshot) suspects() (who []Worker, says string) {
	with := func(submitted, ended bool) []Worker {
		return slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool {
			return !w.Here || w.up < settled || w.Submitted > 0 != submitted || w.Ended > 0 != ended
		})
	}
	if slices.ContainsFunc(s.Workers, func(w Worker) bool { return w.Here && !w.counts }) {
		return nil, ""
	}
	both, submitted, ended := with(true, true), int64(0), int64(0)
	for _, w := range both {
		submitted, ended = submitted+w.Submitted, ended+w.Ended
	}
	if silent := with(true, false); len(silent) > 0 && len(both) >= len(silent) && 2*ended <= 3*submitted {
		return silent, ". By their numbers of the last hour these submitted documents and ended none, as others did: "
	}
	if idle := with(false, false); len(idle) > 0 && s.Totals.Ended > 0 {
		return idle, ". In the last hour these neither submitted nor ended any, as one that has no work, or does not call Done: "
	}
	return nil, ""
}

// floodChecks name the customers who flood: those with a backlog beyond the last load.
func (s *Snapshot) floodChecks(top *Top) []Check {
	var some, overridden, counted Check
	var floods []Busy
	for _, b := range top.Busiest {
		switch {
		case b.State == nil:
		case b.State.Rule == priority.ByCount && b.State.RuleLevel == s.Policies.Policy.Last():
			counted.Customers = append(counted.Customers, b.Name)
		case b.State.PendingFlood > 0:
			floods = append(floods, b)
		}
	}
	slices.SortStableFunc(floods, func(a, b Busy) int { return cmp.Compare(b.State.PendingFlood, a.State.PendingFlood) })
	for i, b := range floods {
		some.Customers, some.Documents = append(some.Customers, b.Name), some.Documents+b.State.PendingFlood
		if i < mostListed {
			some.List = append(some.List, fmt.Sprintf("%s: %s, the first of them from %s", Shown(b.Exact()), Group(b.State.PendingFlood), b.FloodBegan.Format("15:04:05 UTC")))
		}
		if b.State.NextLevel < b.State.RuleLevel {
			overridden.Customers = append(overridden.Customers, b.Name)
		}
	}
	if more := len(floods) - mostListed; more > 0 {
		some.List = append(some.List, fmt.Sprintf("%d more: %s", more, s.Command("status -json")))
	}
	checks := []Check{finding("floods")}
	if floods != nil {
		checks[0] = some.as("floods.some", "others", s.besideFloods())
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
func (s *Snapshot) besideFloods() string {
	all, counted, last := make(fleet.Histogram), int64(0), len(s.Policies.Policy.Loads)
	for level := priority.First; int(level) <= last; level++ {
		counted += s.Totals.ByCount[level]
		for bucket, n := range s.Totals.Waits[level] {
			all[bucket] += n
		}
	}
	says := fmt.Sprintf("how long others wait is not known: none at levels 1 to %d was done in the last minute", last)
	if all.Count() > 0 {
		says = fmt.Sprintf("of the last minute's documents at levels 1 to %d, half were done within %s, 95 of 100 within %s", last, About(all.Median()), About(all.P95()))
	}
	if counted > 0 {
		says += fmt.Sprintf("; of the %s by count that is not known", Group(counted))
	}
	return says
}
