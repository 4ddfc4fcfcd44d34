package main

import (
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/keys"
)

// A document fails again and again, and is put back each time.
func poison(f *trial) {
	workers := f.joinAll("w1", "w2")
	var bad atomic.Pointer[document]
	f.serve(2*time.Millisecond, func(d *document) fate {
		if d == bad.Load() {
			return fails
		}
		return ends
	}, workers...)
	f.send(100*time.Millisecond, workers[0], customers(400)...)
	d := f.submitOnly(workers[1], "acme", 1)[0]
	bad.Store(d)
	f.queue.put(d)
	f.underWay()
	f.age(2*time.Minute, d)
	f.names(truth{check: "poison", customers: []string{"acme"}})
	if said := f.ok("get", "acme"); !strings.Contains(said, d.id) {
		f.Errorf("get does not name %s: %s", d.id, said)
	}
}

// A customer floods, and others are at rest.
func flood(f *trial) {
	workers := f.joinAll("w1", "w2")
	f.submit(workers[0], "archive", 3000)
	f.serve(20*time.Millisecond, allEnd, workers...)
	f.reported()
	f.names(f.floods("archive"))
	f.numbersAreRight()
	for level := range priority.Level(9) {
		var out string
		waits := f.book.pending(ofLevel(level+1, priority.ByLoad), within(func() { out = f.ok("list", "-json", "-level", fmt.Sprint(level+1)) }))
		if waits.least > 0 && !strings.Contains(out, "archive") {
			f.Errorf("%d wait at level %d, and list has %s", waits.least, level+1, out)
		}
	}
}

// floods says who floods, and how many documents there are beyond the last load.
func (f *trial) floods(names ...string) truth {
	return truth{check: "floods", customers: names, fine: true, documents: func(during period) bounds {
		return f.book.pending(ofCustomer(names...).and(ofFlood), during)
	}}
}

// More customers send documents than a report names.
func manyCustomers(f *trial) {
	workers := f.joinAll("w1", "w2", "w3")
	for i := range 150 {
		for n, w := range workers {
			f.submit(w, fmt.Sprint("customer-", i), 1+(i+n)%3)
		}
	}
	f.serve(50*time.Millisecond, allEnd, workers...)
	f.reported()
	f.names()
	f.numbersAreRight()
}

// A customer that counts is at the last level beside one that floods.
func blame(f *trial) {
	workers := f.joinAll("w1", "w2")
	f.submit(workers[0], "archive", 3000)
	f.count(workers[1], "counted", 60)
	f.serve(20*time.Millisecond, allEnd, workers...)
	f.reported()
	counted := truth{check: "floods", customers: []string{"counted"}, fine: true, allowed: true}
	f.names(f.floods("archive"), counted)
}

// Many customers flood at once.
func manyFloods(f *trial) {
	workers := f.joinAll("w1", "w2")
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprint("flood-", i))
		f.submit(workers[i%2], names[i], 300)
	}
	f.reported()
	f.names(f.floods(names...))
	if out := f.ok("status"); strings.Count(out, "\n") > 24 {
		f.Errorf("status is long:\n%s", out)
	}
	f.numbersAreRight()
}

// An override gives level 1 to a customer that floods.
func overridden(f *trial) {
	workers := f.joinAll("w1", "w2")
	f.submit(workers[0], "archive", 300)
	f.ok("override", "set", "archive", "-level", "1", "-for", "2h", "-why", "a demo")
	f.submit(workers[0], "archive", 40)
	f.reported()
	f.names(truth{check: "floods", customers: []string{"archive"}})
	f.ok("override", "end", "archive", "-why", "it is over")
	f.names(f.floods("archive"))
}

// An override to the last level was forgotten.
func oldOverride(f *trial) {
	f.busy()
	f.ok("override", "set", "acme", "-level", "9", "-for", "200h", "-why", "a test")
	f.names()
	key := keys.Prefix("").Of("acme", keys.Override)
	text := f.client.Get(f.Context(), key).Val()
	at := setAt.FindString(text)
	f.client.SetXX(f.Context(), key, strings.Replace(text, at, fmt.Sprintf(`"at":%d`, time.Now().Add(-25*time.Hour).UnixMilli()), 1), 100*time.Hour)
	f.names(truth{check: "overrides", customers: []string{"acme"}, fine: true})
	f.ok("override", "end", "acme", "-why", "it is over")
	f.names()
}

// Level 1 takes longer than in the last hour.
func slow(f *trial) {
	workers := f.joinAll("w1", "w2")
	for i := range 400 {
		f.submit(workers[0], fmt.Sprint("customer-", i), 1)
		f.done(workers[0], f.queue.take(), time.Millisecond)
	}
	f.awaitDone(400)
	f.awaitDone(0)
	documents := f.submit(workers[1], "acme", 2)
	f.age(5*time.Second, documents...)
	for range documents {
		f.done(workers[1], f.queue.take(), time.Second)
	}
	f.names(truth{check: "waits"})
}

// Calls are wrong.
func wrongCalls(f *trial) {
	workers := f.busy()
	f.submit(workers[2], "", 7)
	f.names(truth{check: "errors", documents: func(during period) bounds { return f.book.lastMinute(failed, during, f.reportedUntil(), whenDecided) }})
}

// No worker takes what has level 2 or more.
func stuck(f *trial) {
	workers := f.joinAll("w1", "w2")
	f.queue.upTo = 1
	f.serve(2*time.Millisecond, allEnd, workers...)
	f.send(100*time.Millisecond, workers[0], customers(400)...)
	documents := f.submit(workers[1], "acme", 20)
	f.underWay()
	for _, d := range documents {
		if d.Level > 1 {
			f.age(2*time.Minute, d)
		}
	}
	// That no worker takes them and that no Done is called is the same to who looks at Redis.
	waiting := func(during period) bounds {
		return f.book.pending(ofCustomer("acme").and(func(d *document) bool { return d.Level > 1 }), during)
	}
	f.names(truth{check: "stuck", customers: []string{"acme"}, documents: waiting}, truth{check: "done", customers: []string{"acme"}, workers: []string{}, documents: waiting, allowed: true})
}

// awaitDone waits until the workers report so many documents of level 1 that were done in the last
// minute.
func (f *trial) awaitDone(n int64) {
	f.Helper()
	for until := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if reports, err := fleet.Read(f.Context(), f.client, ""); err == nil && fleet.Add(reports).Waits[1].Count() == n {
			return
		}
		if time.Now().After(until) {
			f.Fatalf("it is never reported that %d were done", n)
		}
	}
}

var setAt = regexp.MustCompile(`"at":\d+`)
