package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
)

// Status says what an operator has to know at a glance: of Redis, the policies, the workers,
// waits, floods and overrides. A Check that is not OK says what to do. top and overrides
// are read separately.
func (s *Snapshot) Status(ctx context.Context, top *Top, overrides []Override) []Check {
	return slices.Concat(s.redisChecks(ctx), s.policiesCheck(), s.workerChecks(), s.waitChecks(top), s.errorChecks(), s.floodChecks(top), s.overrideCheck(overrides))
}

func (s *Snapshot) redisChecks(ctx context.Context) (checks []Check) {
	for _, m := range s.Masters {
		memory := m.memoryCheck()
		product, version := m.product()
		c := Check{"redis", memory.Status, fmt.Sprintf("%s: %s %s, %s, up for %s", m.Name, product, version, memory.Found, Span(m.up())), memory.Remedy}
		switch {
		case m.Away != nil:
			c = m.away("redis")
		case len(m.info) == 0:
			c = Check{"redis", OK, m.Name + " answers; this user may not ask for more", ""}
		case m.Replica() != "":
			c = m.replication()
		case m.full():
			c.Remedy = "each process decides alone, and reports are not written, so workers may be missing below: raise maxmemory, as by redis-cli config set maxmemory 2gb, and in redis.conf"
		}
		checks = append(checks, c)
	}
	if emptied := s.emptied(ctx); emptied != "" {
		checks = append(checks, Check{"data", Failed, emptied, "priorityctl control import brings an export back; if there is none, policy apply or policy withdraw settles this"})
	}
	return checks
}

// Loss says what Redis has lost, as long as no operator has decided about it; empty: nothing.
func (s *Snapshot) Loss(ctx context.Context) string { return cmp.Or(s.Lost(), s.emptied(ctx)) }

// emptied says that workers noticed that Redis had lost its data within the last day; empty:
// none did, or an operator has imported an export or decided on the policies since.
func (s *Snapshot) emptied(ctx context.Context) string {
	at, err := fleet.Emptied(ctx, s.Client, s.Prefix)
	if err != nil || at.IsZero() {
		return ""
	}
	entries, _ := s.Admin.Log(ctx, "", 100)
	for _, entry := range entries {
		if (entry.Kind == "import" || entry.Kind == "policies") && entry.At.After(at) {
			return ""
		}
	}
	return "Redis lost its data " + ago(s.Now.Sub(at)) + " ago: policies and overrides from before are gone"
}

func (s *Snapshot) policiesCheck() []Check {
	c := Check{"policies", OK, s.Source + ": " + Summary(s.Policies), ""}
	lost := s.Lost()
	switch {
	case s.PoliciesErr != nil:
		c.Status, c.Found = Failed, OneLine(s.Hidden(s.PoliciesErr))
		c.Remedy = "workers keep the policies that they know; policy apply replaces what is not JSON; a key of another type must be removed"
	case lost != "":
		c.Status, c.Found = Failed, lost+". Workers keep what they know"
		c.Remedy = "priorityctl control import brings an export back, policy apply sets others, policy withdraw returns to the workers' own options"
	case s.Applied.Policies == nil:
		c.Found = "the workers' own options: operators have set none"
	}
	return []Check{c}
}

func (s *Snapshot) workerChecks() []Check {
	if s.ReportsErr != nil {
		return []Check{{"workers", Failed, "their reports cannot be read: " + OneLine(s.Hidden(s.ReportsErr)), ""}}
	}
	c := Check{"workers", OK, s.Following(), ""}
	var gone, others []string
	degraded, replaced := false, 0
	for _, w := range s.Workers {
		switch {
		case w.Replaced:
			replaced++
		case !w.Here:
			gone = append(gone, fmt.Sprintf("%s, last seen %s ago", w.Called(), ago(s.At.Sub(w.LastSeen))))
		case !w.Follows:
			others = append(others, w.Called())
			degraded = degraded || w.Degraded
		}
	}
	switch {
	case s.Full():
		c.Status, c.Remedy = Warning, "their reports cannot be written while Redis is full"
	case len(s.Workers) == 0:
		c.Found, c.Remedy = "no worker has reported in the last hour: workers with fleet.Join do", ""
	case degraded:
		c.Status, c.Remedy = Warning, "those that cannot reach Redis decide by themselves: look at their log and network"
	case len(others) > 0:
		c.Status, c.Remedy = Warning, "priorityctl workers has all"
	}
	if replaced > 0 {
		c.Found += fmt.Sprintf("; %s ended without Close, and others have started since", Plural(int64(replaced), "worker"))
	}
	checks := []Check{c}
	if len(gone) > 0 && !s.Full() {
		checks = append(checks, Check{"gone", Warning, Plural(int64(len(gone)), "worker") + " ended without Close within an hour: " + Named(gone),
			"killed or hanging: look at its log, and whether its platform has replaced it"})
	}
	return checks
}

// slower is the factor by which level 1 must exceed its last hour, besides a second, to be
// slower than usual.
const slower = 3

func (s *Snapshot) waitChecks(top *Top) []Check {
	first, hour := top.Levels[0], s.Totals.FirstHour
	c := Check{"waits", OK, "no document of level 1 was done in the last minute, and none waits", ""}
	switch {
	case first.Done > 0:
		c.Found = fmt.Sprintf("level 1: median %s, 95 of 100 within %s (last hour: %s, %s)",
			About(first.Median()), About(first.P95()), About(hour.Median()), About(hour.P95()))
	case first.Pending > 0:
		c.Found = fmt.Sprintf("no document of level 1 was done in the last minute; %s pending, the oldest for %s", Group(first.Pending), About(first.Oldest()))
	}
	if first.P95() > max(time.Second, slower*hour.P95()) {
		c.Status, c.Remedy = Warning, "level 1 is slower than usual: add workers, or see what they wait for"
	}
	checks := []Check{c}
	if says := top.Stuck(); says != "" {
		stuck := Check{"stuck", OK, says, "a flood waits while others are served: that is meant; more workers end it sooner"}
		if beforeFloods := top.Levels[:min(len(s.Policies.Policy.Loads), len(top.Levels))]; slices.ContainsFunc(beforeFloods, Level.Stuck) {
			stuck.Status, stuck.Remedy = Warning, "documents before them take all workers: add workers, and see priorityctl top"
		}
		if top.Levels[0].Stuck() {
			stuck.Remedy = "no worker takes these documents, or Done is not called for them: look at the workers' code and log"
		}
		checks = append(checks, stuck)
	}
	return checks
}

// Stuck says at which levels documents wait and none was done; empty: at none.
func (t *Top) Stuck() string {
	var ranges []string // such as "1–3" and "7"
	var pending int64
	var oldest time.Duration
	for i, l := range t.Levels {
		if !l.Stuck() {
			continue
		}
		pending, oldest = pending+l.Pending, max(oldest, l.Oldest())
		if i == 0 || !t.Levels[i-1].Stuck() {
			ranges = append(ranges, fmt.Sprint(l.Level))
			continue
		}
		end := &ranges[len(ranges)-1]
		from, _, _ := strings.Cut(*end, "–")
		*end = fmt.Sprintf("%s–%d", from, l.Level)
	}
	if ranges == nil {
		return ""
	}
	says := fmt.Sprintf("No document of level %s was done in the last minute; %s pending, the oldest for %s",
		strings.Join(ranges, ", "), Group(pending), Span(oldest.Round(time.Second)))
	if len(t.Busiest) > 0 {
		most := slices.MaxFunc(t.Busiest, func(a, b Busy) int { return cmp.Compare(a.pending(), b.pending()) })
		if most.pending() > pending/2 {
			says += "; most are of " + Shown(most.Exact())
		}
	}
	return says
}

// classes are the errors of reports in an operator's words, and what to do.
var classes = []struct{ class, says, remedy string }{
	{"corrupt", "met a corrupt key", "priorityctl list -corrupt names the customers"},
	{"not_counted", "could not be counted", "priorityctl ping says why"},
	{"outcome_unknown", "may have been counted, or not", "Redis answers late: priorityctl ping"},
	{"invalid", "were wrong calls", "the workers' log has them"},
	{"error", "failed otherwise", "the workers' log has them"},
}

func (s *Snapshot) errorChecks() (checks []Check) {
	for _, class := range classes {
		if n := s.Totals.Errors[class.class]; n > 0 {
			checks = append(checks, Check{"errors", Warning, Plural(n, "document") + " " + class.says + " in the last minute", class.remedy})
		}
	}
	return checks
}

// floodChecks name the customers who flood.
func (s *Snapshot) floodChecks(top *Top) []Check {
	var names []string
	var checks []Check
	for _, b := range top.Busiest {
		if b.State == nil || !floods(*b.State, s.Policies.Policy.Last()) {
			continue
		}
		flood, state := Shown(b.Exact()), b.State
		if began := s.floodBegan(s.hourOf(b.Exact())); !began.IsZero() {
			flood += " since " + began.Format("15:04 UTC")
		}
		if state.Rule == priority.ByLoad {
			flood += ": " + Group(state.Pending) + " pending"
		}
		if state.NextLevel < state.RuleLevel {
			checks = append(checks, Check{"flood", Warning, fmt.Sprintf("%s, and an override gives it level %d for %d: others wait for it", flood, state.NextLevel, state.RuleLevel),
				s.CommandFor(b.Exact(), "override end -why ''") + " ends that"})
			continue
		}
		names = append(names, flood)
	}
	switch {
	case names != nil:
		return append(checks, Check{"floods", OK, Named(names) + "; others do not wait for them", ""})
	case checks == nil:
		return []Check{{"floods", OK, "none", ""}}
	}
	return checks
}

// floodBegan returns when a customer's documents began to get late levels, without a break
// since; zero: not within the last hour.
func (s *Snapshot) floodBegan(parts []Part) (began time.Time) {
	for _, p := range slices.Backward(parts) {
		if p.Level <= s.Last/2 || !began.IsZero() && began.Sub(p.Began) > 2*fleet.PartLength {
			break
		}
		began = p.Began
	}
	return began
}

// endsSoon is how long before its end an override is said to end soon.
const endsSoon = time.Hour

func (s *Snapshot) overrideCheck(overrides []Override) []Check {
	c := Check{"overrides", OK, "none", ""}
	if len(overrides) > 0 {
		c.Found = Group(int64(len(overrides))) + " in force"
	}
	var soon []string
	for _, o := range overrides {
		if o.Left > 0 && o.Left < endsSoon {
			soon = append(soon, fmt.Sprintf("%s (%s) in %s", Shown(o.Customer), o.Says(), Span(o.Left.Round(time.Second))))
		}
	}
	if len(soon) > 0 {
		c.Found += "; about to end: " + Named(soon)
		c.Remedy = "let it end, or set it again"
	}
	return []Check{c}
}

// About writes a wait in two digits, as waits are not measured more exactly.
func About(wait time.Duration) string {
	unit := time.Millisecond
	for wait/unit >= 100 && unit < 10*time.Second {
		unit *= 10
	}
	return Span(wait.Round(min(unit, time.Second)))
}

// Says is what the workers report, in a sentence without a full stop.
func (s *Snapshot) Says() string {
	all := s.Totals
	said := []string{fmt.Sprintf("%s here", Plural(int64(all.Reports), "worker"))}
	note := func(n int64, format string) {
		if n > 0 {
			said = append(said, fmt.Sprintf(format, Group(n)))
		}
	}
	note(int64(all.Gone), "%s gone")
	note(int64(all.Degraded), "%s degraded")
	note(int64(all.Unreadable), "%s not readable")
	said[len(said)-1] += fmt.Sprintf("; %s in the last %s", Plural(all.Documents(), "document"), Span(cmp.Or(all.Window, time.Minute).Round(time.Second)))
	note(all.Overridden, "%s by overrides")
	note(all.Fallback, "%s by the processes alone")
	for _, class := range classes {
		note(all.Errors[class.class], "%s "+class.says)
	}
	return strings.Join(said, ", ")
}
