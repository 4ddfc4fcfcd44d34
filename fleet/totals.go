package fleet

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// Totals are the sums of a fleet's reports.
type Totals struct {
	// Reports is how many processes are here, and Unreadable how many further reports
	// cannot be read. Gone is how many processes have gone without Close.
	Reports, Unreadable, Gone int

	// Degraded is how many of the processes here cannot reach Redis.
	Degraded int

	// Window is what the numbers below cover: the longest Window of a report.
	Window time.Duration

	// The rest are sums of the same fields over the processes here; FirstHour, Submitted, Ended
	// and a customer's Hour also include processes that are gone.
	ByCount, ByLoad      map[priority.Level]int64
	Overridden, Fallback int64
	Errors               map[string]int64
	Waits                map[priority.Level]Histogram
	FirstHour            Histogram
	Submitted, Ended     int64

	// Busiest are all customers of the reports, the busiest first. Their documents are
	// added up. Level, Ago and the other fields of the latest decision come from the most
	// recent one.
	Busiest []Busy
}

// Documents returns how many documents got a level.
func (t Totals) Documents() int64 { return sum(t.ByCount) + sum(t.ByLoad) }

// Add adds reports up.
func Add(reports []Report) Totals {
	t := Totals{
		ByCount: make(map[priority.Level]int64), ByLoad: make(map[priority.Level]int64),
		Errors: make(map[string]int64), Waits: make(map[priority.Level]Histogram),
	}
	busiest, first := make(map[string]Busy), map[int]int64{}
	for _, r := range reports {
		switch {
		case !r.Here():
			t.Gone++
		case r.Err != nil:
			t.Unreadable++
		default:
			t.add(r)
		}
		add(&first, r.FirstHour)
		t.Submitted += r.Submitted
		t.Ended += r.Ended
		for _, b := range r.Busiest {
			busiest[b.Customer] = joined(busiest[b.Customer], b, r)
		}
	}
	t.FirstHour = first
	t.Busiest = slices.AppendSeq(make([]Busy, 0, len(busiest)), maps.Values(busiest))
	slices.SortFunc(t.Busiest, busier)
	return t
}

// add adds the report of a process that is here.
func (t *Totals) add(r Report) {
	t.Reports++
	if r.Degraded {
		t.Degraded++
	}
	t.Window = max(t.Window, r.Window)
	add(&t.ByCount, r.ByCount)
	add(&t.ByLoad, r.ByLoad)
	add(&t.Errors, r.Errors)
	addWaits(&t.Waits, r.Waits)
	t.Overridden += r.Overridden
	t.Fallback += r.Fallback
}

// joined adds a report's numbers for a customer to those of others, the zero Busy if there are
// none.
func joined(others, b Busy, r Report) Busy {
	b.Ago += r.Age
	if !r.Here() {
		b.Documents = 0 // not in the last minute
	}
	latest := b
	if others.Customer != "" && others.Ago < b.Ago {
		latest = others
	}
	latest.Documents = others.Documents + b.Documents
	if others.Customer == "" && r.Age < time.Second { // most are in one report
		return latest
	}
	latest.Hour = slices.Clone(others.Hour)
	for _, p := range b.Hour {
		p.Ago += r.Age
		i := slices.IndexFunc(latest.Hour, func(other Part) bool { return other.Ago/PartLength == p.Ago/PartLength })
		if i < 0 {
			latest.Hour = append(latest.Hour, p)
			continue
		}
		sum := &latest.Hour[i]
		*sum = Part{max(sum.Ago, p.Ago), sum.Documents + p.Documents, max(sum.Level, p.Level)}
	}
	slices.SortFunc(latest.Hour, func(x, y Part) int { return cmp.Compare(x.Ago, y.Ago) })
	return latest
}

func busier(a, b Busy) int {
	return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(b.Pending, a.Pending), cmp.Compare(b.Level, a.Level), cmp.Compare(a.Customer, b.Customer))
}

// add adds counts to *to.
func add[K comparable](to *map[K]int64, counts map[K]int64) {
	if *to == nil {
		*to = maps.Clone(counts)
		return
	}
	for key, n := range counts {
		(*to)[key] += n
	}
}
