package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/docpriority/priority"
)

// numbers compares what commands print with the book.
type numbers struct {
	*trial
	out    string    // what a command has printed
	during period    // while it did
	until  time.Time // all workers had reported what they do
}

// read runs a command whose output is one JSON object, or several.
func (n *numbers) read(command string, args ...string) *json.Decoder {
	n.Helper()
	n.until = n.reportedUntil()
	n.during = within(func() { _, n.out, _ = n.ask(command, append(args, "-json")...) })
	return json.NewDecoder(strings.NewReader(n.out))
}

// exact fails the test for a number that the book does not have.
func (n *numbers) exact(what string, number int64, b bounds) {
	n.Helper()
	if number < b.least || number > b.most {
		n.Errorf("%s: %d, and in the book %d to %d:\n%s", what, number, b.least, b.most, n.out)
	}
}

// atLeast fails the test for a number above the book's.
func (n *numbers) atLeast(what string, number int64, b bounds) {
	n.Helper()
	n.exact(what, number, bounds{0, b.most})
}

func (n *numbers) lastMinute(which which, of func(*document) period) bounds {
	return n.book.lastMinute(which, n.during, n.until, of)
}

// numbersAreRight fails the test for each number of top, workers and get that the book does not have.
func (f *trial) numbersAreRight() {
	f.Helper()
	n := &numbers{trial: f}
	busiest := n.top()
	n.workers()
	for _, name := range busiest[:min(3, len(busiest))] {
		n.get(name)
	}
}

// top compares top, and returns the customers that it names.
func (n *numbers) top() (busiest []string) {
	n.Helper()
	var top struct {
		Levels []struct {
			Level         priority.Level
			ByLoad        int64 `json:"by_load"`
			ByCount       int64 `json:"by_count"`
			Done, Pending int64
			AtLeast       bool  `json:"at_least"`
			OldestMS      int64 `json:"oldest_ms"`
		}
		Busiest []struct {
			Customer  string
			Documents int64
			State     struct{ Pending int64 }
		}
	}
	if err := n.read("top").Decode(&top); err != nil {
		n.Fatal(err)
	}
	for _, l := range top.Levels {
		name, byLoad := fmt.Sprint("top: level ", l.Level), ofLevel(l.Level, priority.ByLoad)
		pending, oldest := n.exact, n.exact
		if l.AtLeast {
			pending, oldest = n.atLeast, n.atLeast
		}
		n.exact(name+", by load", l.ByLoad, n.lastMinute(byLoad, whenDecided))
		n.exact(name+", by count", l.ByCount, n.lastMinute(ofLevel(l.Level, priority.ByCount), whenDecided))
		n.exact(name+", done", l.Done, n.lastMinute(byLoad, whenEnded))
		pending(name+", pending", l.Pending, n.book.pending(byLoad, n.during))
		oldest(name+", oldest", l.OldestMS, n.book.oldest(byLoad, n.during))
	}
	for _, b := range top.Busiest {
		busiest = append(busiest, b.Customer)
		n.atLeast("top: "+b.Customer, b.Documents, n.lastMinute(ofCustomer(b.Customer), whenDecided))
		n.exact("top: "+b.Customer+", pending", b.State.Pending, n.book.pending(ofCustomer(b.Customer), n.during))
	}
	return busiest
}

// workers compares workers.
func (n *numbers) workers() {
	n.Helper()
	for all := n.read("workers"); all.More(); {
		var w struct {
			Name      string
			Documents int64
			Submitted int64 `json:"submitted_hour"`
			Ended     int64 `json:"ended_hour"`
		}
		if err := all.Decode(&w); err != nil {
			n.Fatal(err)
		}
		submitted := func(d *document) bool { return d.by == w.Name && !d.failed }
		ended := func(d *document) bool { return d.endedBy == w.Name && d.rule == priority.ByLoad }
		n.exact(w.Name+", documents", w.Documents, n.lastMinute(submitted, whenDecided))
		n.exact(w.Name+", submitted", w.Submitted, n.book.inReports(which(submitted).and(byLoad), n.during, n.until, whenDecided))
		n.exact(w.Name+", ended", w.Ended, n.book.inReports(ended, n.during, n.until, whenEnded))
	}
}

// get compares get.
func (n *numbers) get(name string) {
	n.Helper()
	var c struct {
		State struct {
			Rule         string
			Pending      int64
			PendingFlood int64 `json:"pending_flood"`
			OldestMS     int64 `json:"oldest_ms"`
		}
		Hour       []struct{ Documents int64 }
		FloodBegan time.Time `json:"flood_began"`
	}
	if err := n.read("get", name).Decode(&c); err != nil {
		n.Fatal(err)
	}
	all, hour := ofCustomer(name), int64(0)
	for _, part := range c.Hour {
		hour += part.Documents
	}
	n.atLeast("get: "+name+", in the last hour", hour, n.book.inReports(all, n.during, n.until, whenDecided))
	n.exact("get: "+name+", pending", c.State.Pending, n.book.pending(all, n.during))
	n.exact("get: "+name+", pending beyond the last load", c.State.PendingFlood, n.book.pending(all.and(ofFlood), n.during))
	n.exact("get: "+name+", oldest", c.State.OldestMS, n.book.oldest(all, n.during))
	if began := n.book.oldest(all.and(ofFlood), n.during); c.FloodBegan.IsZero() != (began.most == 0) || began.most > 0 &&
		(c.FloodBegan.Before(n.during.began.Add(-time.Duration(began.most+1000)*time.Millisecond)) || c.FloodBegan.After(n.during.ended.Add(-time.Duration(began.least)*time.Millisecond))) {
		n.Errorf("get: %s: the flood began %v to %v ms before %v:\n%s", name, began.least, began.most, n.during, n.out)
	}
}
