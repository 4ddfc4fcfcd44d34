//go:build !race

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
)

// truth is what a check of status may find while something is wrong, and has to find within a minute
// unless that is only allowed.
type truth struct {
	check     string
	customers []string             // exactly these; nil: any
	workers   []string             // likewise
	documents func(*document) bool // which are counted; nil: any number
	atLeast   bool                 // a smaller number is true, too
	fine      bool                 // it is found, though the status is ok
	allowed   bool                 // it need not be found
}

// allow lets checks find what is true besides.
func allow(checks ...string) (all []truth) {
	for _, check := range checks {
		all = append(all, truth{check: check, allowed: true})
	}
	return all
}

func (c found) customers() (names []string) {
	for _, name := range c.Customers {
		names = append(names, name.Exact())
	}
	return names
}

// names waits until status has found all that is wrong, and looks on for a while. It fails the test
// for anything found that is not so, and for what is no longer found.
func (f *trial) names(truths []truth) {
	f.Helper()
	const looks, after = 12, 2 // at most a minute, and ten seconds
	for look, found := 0, 0; found <= after; look++ {
		missing, out := f.look(truths)
		if missing == nil {
			found++
		}
		if f.Failed() || missing != nil && (found > 0 || look == looks) {
			f.Fatalf("status does not name %q, but says\n%s", missing, strings.ReplaceAll(out, `{"check"`, "\n"+`{"check"`))
		}
		time.Sleep(5 * time.Second)
	}
}

// read reads what a command prints as JSON: an object, or several.
func (f *trial) read(command string, args ...string) (decoder *json.Decoder, status int, out string) {
	f.Helper()
	synctest.Wait()
	status, out, _ = f.ask(command, append(args, "-json")...)
	return json.NewDecoder(strings.NewReader(out)), status, out
}

// look looks once. It returns the checks that do not yet find what is wrong.
func (f *trial) look(truths []truth) (missing []string, out string) {
	f.Helper()
	var said struct {
		OK     bool
		Checks []found
	}
	decoder, status, out := f.read("status")
	if err := decoder.Decode(&said); err != nil || said.OK != (status == 0) {
		f.Fatalf("status %d: %v: %s", status, err, out)
	}
	for _, truth := range truths {
		if !truth.allowed && !slices.ContainsFunc(said.Checks, func(c found) bool { return truth.isFoundBy(f, c) }) {
			missing = append(missing, truth.check)
		}
	}
	for _, c := range said.Checks {
		ok := c.Status == insight.OK && len(c.Customers)+len(c.Workers) == 0
		if !ok && !slices.ContainsFunc(truths, func(t truth) bool { return t.allows(f, c) }) {
			f.Errorf("this is not so: %+v", c)
		}
	}
	return missing, out
}

// isFoundBy reports whether a check finds all that is wrong.
func (t truth) isFoundBy(f *trial, c found) bool {
	return t.allows(f, c) && (c.Status == insight.OK) == t.fine && (c.Remedy != "" || t.fine) &&
		len(c.customers()) >= len(t.customers) && len(c.Workers) >= len(t.workers)
}

// allows reports whether what a check finds is so.
func (t truth) allows(f *trial, c found) bool {
	if t.check != c.Check || !isSome(c.customers(), t.customers) || !isSome(c.Workers, t.workers) {
		return false
	}
	if t.documents == nil {
		return true
	}
	n := f.count(t.documents)
	return c.Documents == n || t.atLeast && c.Documents > 0 && c.Documents < n
}

// isSome reports whether all names are among these, if there are any.
func isSome(names, all []string) bool {
	return all == nil || !slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(all, name) })
}

// numbersAreRight fails the test for each number of top, workers and get that is not so.
func (f *trial) numbersAreRight() {
	f.Helper()
	f.paused.Store(true)
	defer f.paused.Store(false)
	time.Sleep(6 * time.Second) // all is reported
	wrong := func(what string, got, want int64) {
		if got != want {
			f.Errorf("%s: %d, not %d", what, got, want)
		}
	}
	var top struct {
		Levels []struct {
			Level         priority.Level
			ByLoad        int64 `json:"by_load"`
			ByCount       int64 `json:"by_count"`
			Done, Pending int64
			AtLeast       bool `json:"at_least"`
		}
		Busiest []struct {
			Customer  string
			Documents int64
			State     struct{ Pending int64 }
		}
	}
	decoder, _, out := f.read("top")
	if err := decoder.Decode(&top); err != nil || len(top.Busiest) == 0 {
		f.Fatal(err, out)
	}
	for _, l := range top.Levels {
		at := fmt.Sprint("level ", l.Level)
		of := func(is func(*document) bool) int64 {
			return f.count(func(d *document) bool { return !d.failed && d.Level == l.Level && is(d) })
		}
		wrong(at+" by load", l.ByLoad, of((*document).byLoad))
		wrong(at+" by count", l.ByCount, of(func(d *document) bool { return d.rule == priority.ByCount }))
		wrong(at+" done", l.Done, of(func(d *document) bool { return d.byLoad() && !d.ended.IsZero() }))
		if waits := of((*document).waits); l.Pending != waits && (!l.AtLeast || l.Pending > waits) {
			wrong(at+" pending", l.Pending, waits)
		}
	}
	for _, b := range top.Busiest {
		of := func(d *document) bool { return d.customer == b.Customer && !d.failed }
		if sent := f.count(of); b.Documents > sent {
			wrong(b.Customer, b.Documents, sent)
		}
		wrong(b.Customer+" pending", b.State.Pending, f.count(func(d *document) bool { return of(d) && d.waits() }))
	}
	for workers, _, _ := f.read("workers"); workers.More(); {
		var w struct {
			Name                 string
			Documents, Submitted int64
			SubmittedHour        int64 `json:"submitted_hour"`
			EndedHour            int64 `json:"ended_hour"`
		}
		if err := workers.Decode(&w); err != nil {
			f.Fatal(err)
		}
		wrong(w.Name, w.Documents, f.count(func(d *document) bool { return d.by == w.Name && !d.failed }))
		wrong(w.Name+" submitted", w.SubmittedHour, f.count(func(d *document) bool { return d.by == w.Name && d.byLoad() }))
		wrong(w.Name+" ended", w.EndedHour, f.count(func(d *document) bool { return d.endedBy == w.Name && d.byLoad() }))
	}
	busiest := top.Busiest[0].Customer
	var c struct {
		State struct {
			Flood    int64 `json:"pending_flood"`
			OldestMS int64 `json:"oldest_ms"`
		}
		Hour []struct{ Documents int64 }
	}
	decoder, _, out = f.read("get", busiest)
	if err := decoder.Decode(&c); err != nil || len(c.Hour) == 0 {
		f.Fatal(err, out)
	}
	var oldest time.Duration
	wrong(busiest+" beyond the last load", c.State.Flood, f.count(func(d *document) bool {
		if d.customer == busiest && d.waits() {
			oldest = max(oldest, time.Since(d.decided))
		}
		return d.customer == busiest && d.floods()
	}))
	wrong(busiest+" oldest", c.State.OldestMS, oldest.Milliseconds())
}
