package fleet

import (
	"maps"
	"slices"
	"time"

	"github.com/docpriority/priority"
)

// Totals are the sums of a fleet's reports.
type Totals struct {
	// Reports is how many processes have reported, and Unreadable how many more
	// reports cannot be read.
	Reports, Unreadable int

	// Degraded is how many of the processes cannot reach Redis, and IgnoreOverrides how
	// many do not apply operators' overrides.
	Degraded, IgnoreOverrides int

	// Following counts the processes by the version of the rules that they follow; 0:
	// their own options. NotFollowing is how many do not follow the newest rules that
	// they know, and say why in Rules.Error; Following counts them too.
	Following    map[int64]int
	NotFollowing int

	// Window is what the numbers below cover: the longest Window of a report.
	Window time.Duration

	// The rest are the sums of the reports' fields of the same names.
	ByCount, ByLoad      map[priority.Level]int64
	Overridden, Fallback int64
	Errors               map[string]int64
	Waits                map[priority.Level]Histogram

	// Busiest are all customers of the reports, the busiest first. Their documents are
	// added up; the level and the number behind it come from the latest report.
	Busiest []Busy
}

// Documents returns how many documents were given a level.
func (t Totals) Documents() int64 { return sum(t.ByCount) + sum(t.ByLoad) }

// Add adds reports up.
func Add(reports []Report) Totals {
	t := Totals{
		Following: make(map[int64]int), ByCount: make(map[priority.Level]int64), ByLoad: make(map[priority.Level]int64),
		Errors: make(map[string]int64), Waits: make(map[priority.Level]Histogram),
	}
	type newest struct {
		Busy
		age time.Duration
	}
	busiest := make(map[string]newest)
	for _, r := range reports {
		if r.Err != nil {
			t.Unreadable++
			continue
		}
		t.Reports++
		t.Degraded += oneIf(r.Degraded)
		t.IgnoreOverrides += oneIf(!r.Overrides)
		t.Following[r.Rules.Version]++
		t.NotFollowing += oneIf(r.Rules.Error != "")
		t.Window = max(t.Window, r.Window)
		add(&t.ByCount, r.ByCount)
		add(&t.ByLoad, r.ByLoad)
		add(&t.Errors, r.Errors)
		addWaits(&t.Waits, r.Waits)
		t.Overridden += r.Overridden
		t.Fallback += r.Fallback
		for _, b := range r.Busiest {
			before, ok := busiest[b.Customer]
			sum := before.Documents + b.Documents
			if !ok || r.Age <= before.age {
				before = newest{b, r.Age}
			}
			before.Documents = sum
			busiest[b.Customer] = before
		}
	}
	for b := range maps.Values(busiest) {
		t.Busiest = append(t.Busiest, b.Busy)
	}
	slices.SortFunc(t.Busiest, busier)
	return t
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

// add adds counts to others.
func add[K comparable](to *map[K]int64, counts map[K]int64) {
	if *to == nil {
		*to = maps.Clone(counts)
		return
	}
	for key, n := range counts {
		(*to)[key] += n
	}
}
