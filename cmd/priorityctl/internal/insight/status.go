package insight

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
)

// Status says what an operator has to know at a glance: of Redis, the policies, the workers, their
// clocks, waits, documents without a Done, errors, floods and overrides. A Check that is not OK
// says what to do. top and overrides are read separately.
func (s *Snapshot) Status(ctx context.Context, top *Top, overrides []Override) []Check {
	done := s.doneChecks(top)
	notDone := slices.ContainsFunc(done, func(c Check) bool { return c.Check == "done" && c.Status != OK })
	return slices.Concat(s.redisChecks(ctx), []Check{s.policiesCheck()}, s.WorkerChecks(ctx, notDone), s.clockChecks(ctx, top),
		[]Check{s.waitsCheck(top)}, top.stuckChecks(), done, top.corruptChecks(), s.errorChecks(), s.floodChecks(top), s.overrideChecks(overrides))
}

// Below are the findings that make what is said of a customer less true.
func (s *Snapshot) Below() (checks []Check) {
	for _, m := range s.Masters {
		if m.full() {
			checks = append(checks, m.memoryCheck())
		}
	}
	if alone := slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool { return !w.Here || !w.Degraded }); len(alone) > 0 {
		checks = append(checks, Check{processes: alone}.as("degraded"))
	}
	others := slices.DeleteFunc(slices.Clone(s.Workers), func(w Worker) bool {
		return !w.Here || w.Digest == "" || w.Digest == s.Store.Digest() || w.Documents+w.Submitted == 0
	})
	if s.Applied.Policies == nil && len(others) > 0 {
		checks = append(checks, Check{processes: others}.as("others"))
	}
	if s.ahead.Abs() > clocksDiffer {
		checks = append(checks, finding("clock.redis", "off", off(s.ahead)))
	}
	return checks
}

func (s *Snapshot) redisChecks(ctx context.Context) (checks []Check) {
	for _, m := range s.Masters {
		memory := m.memoryCheck()
		product, version := m.product()
		c := finding("redis", "master", m.Name, "product", product+" "+version, "memory", memory.Found, "up", Span(m.up()))
		c.Status, c.Remedy = memory.Status, memory.Remedy
		switch {
		case m.Away != nil:
			c = finding("redis.away", "why", OneLine(m.Away))
		case len(m.info) == 0:
			c = finding("redis.hidden", "master", m.Name)
		case m.Replica() != "":
			c = finding("redis.replica", "replica", m.Replica())
		}
		checks = append(checks, c)
	}
	if emptied := s.emptied(ctx); emptied != nil {
		checks = append(checks, *emptied)
	}
	return checks
}

// Unreached is the check of a Redis that could not be reached.
func (i *Inspector) Unreached(err error) Check {
	return finding("redis.unreachable", "address", i.Address, "why", OneLine(i.Hidden(err)))
}

// Loss says what Redis has lost, as long as no operator has decided about it; nil: nothing.
func (s *Snapshot) Loss(ctx context.Context) *Check {
	if lost := s.Lost(); lost != "" {
		c := finding("data.lost", "lost", lost)
		return &c
	}
	if c := s.emptied(ctx); c != nil && c.Status != OK {
		return c
	}
	return nil
}

// emptied says that workers noticed that Redis had lost its data within the last day, or that it has
// none as late as the workers have read it; nil: neither, or an operator has imported an export,
// decided on the policies, or changed something since.
func (s *Snapshot) emptied(ctx context.Context) *Check {
	at, err := fleet.Emptied(ctx, s.Client, s.Prefix)
	var known, latest time.Time // when operators last changed something
	saw := false                // whether a worker is here that would know
	for _, r := range s.Reports {
		if r.Here() && r.Changed.After(known) {
			known = r.Changed
		}
		saw = saw || r.Here() && s.Now.Add(-r.Age-r.Up).Before(at)
	}
	entries, unread := s.Admin.Log(ctx, "", 100)
	if err == nil && !at.IsZero() && !slices.ContainsFunc(entries, func(entry control.Entry) bool {
		return (entry.Kind == "import" || entry.Kind == "policies") && entry.At.After(at)
	}) {
		kind := "data.emptied"
		if known.IsZero() && s.Lost() == "" {
			if kind = "data.unknown"; saw {
				kind = "data.restarted"
			}
		}
		c := finding(kind, "ago", ago(s.Now.Sub(at)))
		return &c
	}
	if len(entries) > 0 {
		latest = entries[0].At
	}
	if unread == nil && known.After(latest) && s.Now.Sub(known) < control.MaxOverride {
		c := finding("data.older", "ago", ago(s.Now.Sub(known)))
		return &c
	}
	return nil
}

func (s *Snapshot) policiesCheck() Check {
	lost := s.Lost()
	switch {
	case s.PoliciesErr != nil:
		return finding("policies.unreadable", "why", OneLine(s.Hidden(s.PoliciesErr)))
	case lost != "":
		return finding("policies.lost", "lost", lost)
	case s.Applied.Policies == nil:
		return finding("policies.own")
	}
	return finding("policies", "source", s.Source, "summary", Summary(s.Policies))
}

// classes are the errors of reports in an operator's words.
var classes = []struct{ class, kind, says string }{
	{"corrupt", "corrupt", "met a corrupt key"},
	{"not_counted", "errors.not_counted", "could not be counted"},
	{"outcome_unknown", "errors.outcome_unknown", "may have been counted, or not"},
	{"invalid", "errors.invalid", "were wrong calls"},
	{"error", "errors.error", "failed otherwise"},
}

func (s *Snapshot) errorChecks() (checks []Check) {
	for _, class := range classes {
		if n := s.Totals.Errors[class.class]; n > 0 {
			checks = append(checks, Check{Documents: n}.as(class.kind, "says", class.says))
		}
	}
	return checks
}

// corruptChecks name the customers whose key is corrupt. Their documents get levels from each
// process, so that no caller sees an error.
func (t *Top) corruptChecks() []Check {
	var c Check
	for _, b := range t.Busiest {
		if b.Corrupt != "" {
			c.Customers = append(c.Customers, b.Name)
		}
	}
	if c.Customers == nil {
		return nil
	}
	return []Check{c.as("corrupt.keys")}
}

const (
	endsSoon = time.Hour      // how long before its end an override is said to end soon
	oldLast  = 24 * time.Hour // how old one to the last level may be before that is said
)

func (s *Snapshot) overrideChecks(overrides []Override) []Check {
	inForce, soon, last := "none", []string(nil), Check{}
	if len(overrides) > 0 {
		inForce = Group(int64(len(overrides))) + " in force"
	}
	for _, o := range overrides {
		if o.Left > 0 && o.Left < min(endsSoon, s.Now.Sub(o.At)) { // not one that was set for an hour just now
			soon = append(soon, fmt.Sprintf("%s (%s) in %s", Shown(o.Customer), o.Says(), Span(o.Left.Round(time.Second))))
		}
		if o.Bounds.Earliest == s.Last && !o.At.IsZero() && s.Now.Sub(o.At) > oldLast {
			last.Customers = append(last.Customers, customer.NameOf(o.Customer))
		}
	}
	kind := "overrides"
	if soon != nil {
		kind = "overrides.soon"
	}
	checks := []Check{finding(kind, "in force", inForce, "soon", Named(soon))}
	if last.Customers != nil {
		checks = append(checks, last.as("overrides.last", "command", s.CommandFor(last.Customers[0].Exact(), "override end -why ''")))
	}
	return checks
}

// OverridesUnread takes the place of the checks of overrides that cannot be read.
func (s *Snapshot) OverridesUnread(checks []Check, err error) []Check {
	checks = slices.DeleteFunc(checks, func(c Check) bool { return c.Check == "overrides" })
	return append(checks, finding("overrides.unread", "why", OneLine(s.Hidden(err))))
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
