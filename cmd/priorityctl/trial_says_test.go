package main

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/customer"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// truth is what a check of status may find while something is wrong, and has to find within a minute
// unless that is only allowed.
type truth struct {
	check     string
	customers []string // exactly these; nil: any
	workers   []string
	documents func(during period) bounds // nil: any number
	atLeast   bool                       // a smaller number is true, too
	fine      bool                       // it is found, though the status is ok
	allowed   bool                       // it need not be found
}

// allow lets checks find what is true besides.
func allow(checks ...string) (all []truth) {
	for _, check := range checks {
		all = append(all, truth{check: check, allowed: true})
	}
	return all
}

// found is a check of status -json.
type found struct {
	Check     string
	Status    insight.Outcome
	Found     string
	Remedy    string
	Customers []customer.Name
	Workers   []string
	Documents int64
}

func (c found) customers() (names []string) {
	for _, name := range c.Customers {
		names = append(names, name.Exact())
	}
	return names
}

const (
	soon  = time.Minute      // within which status names what is wrong
	after = 10 * time.Second // for which it is then looked at
)

// names waits until status has found all that is wrong, and looks on for a while. It fails the test
// for anything found that is not so, and for what is no longer found.
func (f *trial) names(truths ...truth) {
	f.Helper()
	var found time.Time
	for began := time.Now(); found.IsZero() || time.Since(found) < after; time.Sleep(500 * time.Millisecond) {
		missing, out := f.look(truths)
		if found.IsZero() && missing == nil {
			found = time.Now()
			f.Logf("found after %v", time.Since(began).Round(time.Second))
		}
		if f.Failed() || missing != nil && (!found.IsZero() || time.Since(began) > soon) {
			f.Fatalf("after %v status does not name %q, but says\n%s", time.Since(began).Round(time.Second), missing, strings.ReplaceAll(out, `{"check"`, "\n"+`{"check"`))
		}
	}
}

// look looks once. It returns the checks that do not yet find what is wrong.
func (f *trial) look(truths []truth) (missing []string, out string) {
	f.Helper()
	var status int
	var errs string
	during := within(func() { status, out, errs = f.ask("status", "-json") })
	var said struct {
		OK     bool
		Checks []found
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		f.Fatalf("status %d: %v: %s%s", status, err, out, errs)
	}
	if said.OK != (status == 0) {
		f.Errorf("exit status %d", status)
	}
	for _, truth := range truths {
		if !truth.allowed && !slices.ContainsFunc(said.Checks, func(c found) bool { return truth.isFoundBy(c, during) }) {
			missing = append(missing, truth.check)
		}
	}
	for _, c := range said.Checks {
		ok := c.Status == insight.OK && len(c.Customers)+len(c.Workers) == 0
		if !ok && !slices.ContainsFunc(truths, func(t truth) bool { return t.allows(c, during) }) && !(slices.Contains(ofSlow, c.Check) && f.warned.Load()) {
			f.Errorf("this is not so: %+v", c)
		}
	}
	return missing, out
}

// isFoundBy reports whether a check finds all that is wrong.
func (t truth) isFoundBy(c found, during period) bool {
	return t.allows(c, during) && (c.Status == insight.OK) == t.fine && (c.Remedy != "" || t.fine) &&
		len(c.customers()) >= len(t.customers) && len(c.Workers) >= len(t.workers)
}

// allows reports whether what a check finds is so.
func (t truth) allows(c found, during period) bool {
	if t.check != c.Check || !isSome(c.customers(), t.customers) || !isSome(c.Workers, t.workers) {
		return false
	}
	if t.documents == nil {
		return true
	}
	n := t.documents(during)
	return n.has(c.Documents) || t.atLeast && c.Documents <= n.most
}

// isSome reports whether all names are among these, if there are any.
func isSome(names, all []string) bool {
	return all == nil || !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// ofSlow are the checks that find that a machine is too slow for its processes.
var ofSlow = []string{"workers", "degraded", "errors"}

// underWay waits until some documents were done, and each worker that is here has reported that.
func (f *trial) underWay() {
	f.Helper()
	redistest.Await(f.T, "documents are done", func() bool {
		return f.book.number(byLoad, func(d *document) bool { return !d.ended.ended.IsZero() }, byLoad).least >= 20
	})
	f.reported()
}

// reported waits until each worker that is here has reported what it has done until now.
func (f *trial) reported() {
	f.Helper()
	since := time.Now()
	redistest.Await(f.T, "all workers report", func() bool { return f.reportedUntil().After(since) })
}

// reportedUntil returns until when all workers here have reported what they do; zero: that is not
// known.
func (f *trial) reportedUntil() (until time.Time) {
	until = time.Now()
	asked := until
	reports, err := fleet.Read(f.Context(), f.client, "")
	if err != nil || len(reports) == 0 {
		return time.Time{}
	}
	for _, r := range reports {
		if at := asked.Add(-r.Age - 100*time.Millisecond); r.Here() && at.Before(until) { // it takes a while to write one
			until = at
		}
	}
	return until
}
