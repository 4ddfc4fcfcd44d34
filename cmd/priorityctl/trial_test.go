//go:build !race

package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/keys"
	"github.com/docpriority/priority/internal/testing/bubble"
)

// incident is something that goes wrong in a fleet, or only looks so.
type incident struct {
	name    string
	happens func(*trial)
	found   []truth // by status

	// One more command says the cause: these parts, with what the space between words may be.
	more string
	says []string

	remedy func(*trial) // nil: none is needed, or it is not the operator's
	after  []truth      // what may still be found then
}

// Each incident is named with its cause within a minute, by status and by one more command, and
// nothing is said that is not so. After the remedy all is well.
func TestTrial(t *testing.T) {
	for _, i := range incidents {
		t.Run(i.name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				f := newTrial(t)
				i.happens(f)
				f.names(i.found)
				more := strings.Fields(i.more)
				_, out, errs := f.ask(more[0], more[1:]...)
				holds(t, out+errs, i.says...)
				if i.remedy != nil {
					i.remedy(f)
					f.names(i.after)
				}
			})
		})
	}
}

var incidents = []incident{
	{
		name: "nothing", more: "get acme", says: []string{"scheduled 20 more, which count from when they are due"},
		happens: func(f *trial) {
			workers := f.busy()
			f.decide(workers[0], "acme", 20, priority.ByLoad, time.Hour)
			f.numbersAreRight()
		},
	},
	{
		name: "nobody works", found: []truth{{check: "workers"}}, more: "workers", says: []string{"no worker reports with the prefix priority", "→ start workers"},
		happens: func(*trial) {},
	},
	{
		name: "killed", more: "workers", says: []string{"gone: last seen", "gone w2", "gone w3"},
		found: append(allow("workers", "done", "poison"), truth{check: "gone", workers: []string{"w2", "w3"}}),
		happens: func(f *trial) {
			for _, w := range f.busy()[1:] {
				w.kill()
			}
		},
	},
	{
		name: "cut off", more: "workers", says: []string{"no w4", "Redis was not reached at the latest report"},
		found: append(allow("workers"), truth{check: "degraded", workers: []string{"w4"}}),
		happens: func(f *trial) {
			f.reports(fleet.Report{ID: "w4", Degraded: true, Digest: f.busy()[0].Report().Digest})
		},
	},
	{
		name: "other policies", more: "workers", found: append(allow("floods"), truth{check: "digest", workers: []string{"odd"}}),
		says: []string{"yes odd on", "it decides by other policies than others do"},
		happens: func(f *trial) {
			f.busy()
			f.send(f.join(priority.RedisOptions{Policy: priority.Policy{Loads: []float64{1, 2, 3, 4, 5}}}, "odd")[0], "acme")
		},
	},
	{
		name: "accounts", more: "workers", found: []truth{{check: "digest", workers: []string{"odd"}}},
		says: []string{"yes odd on", "it splits names into accounts and users, or does not, unlike others"},
		happens: func(f *trial) {
			f.busy()
			f.join(priority.RedisOptions{Accounts: true}, "odd")
		},
	},
	{
		name: "other prefix", more: "workers -prefix prod", says: []string{"yes w4", "yes w5"},
		found: append(allow("stuck"), without([]string{}), truth{check: "prefix", workers: []string{"w4", "w5"}}),
		happens: func(f *trial) {
			f.busy()
			f.serve(20*time.Millisecond, func(*document) fate { return forgotten }, f.join(priority.RedisOptions{Prefix: "prod"}, "w4", "w5")...)
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "mistyped prefix", more: "workers", says: []string{"no worker reports with the prefix typo", "3 workers with the prefix priority in database 0"},
		found: []truth{{check: "workers"}, {check: "prefix", workers: []string{"w1", "w2", "w3"}}},
		happens: func(f *trial) {
			f.busy()
			f.flags = append(f.flags, "-prefix", "typo")
		},
	},
	{
		name: "no Done", more: "get customer-21", says: []string{"no Done within the lease", "probably no Done is sent"},
		found: append(allow("stuck"), without([]string{"w5", "w6"})),
		happens: func(f *trial) {
			for i := range 6 {
				w := f.workers(fmt.Sprint("w", i+1))[0]
				f.serve(20*time.Millisecond, func(*document) fate {
					if i > 3 {
						return forgotten
					}
					return ends
				}, w)
				f.send(w, customers(60)[10*i:10*i+10]...)
			}
			time.Sleep(20 * time.Second)
			f.numbersAreRight()
			time.Sleep(2 * time.Minute)
			f.names(append(allow("stuck"), without([]string{"w5", "w6"})))
			f.paused.Store(true)
			time.Sleep(3 * time.Minute) // the leases end
			f.paused.Store(false)
		},
	},
	{
		name: "producers and workers", more: "workers", says: []string{"yes api", "yes w2"}, // neither proves anything
		found: append(allow("stuck"), without([]string{})),
		happens: func(f *trial) {
			both := append(f.join(priority.RedisOptions{Policy: priority.Policy{InOrder: true}}, "api"), f.workers("w2")...)
			f.send(both[0], customers(20)...)
			f.serve(20*time.Millisecond, func(d *document) fate {
				if len(d.customer)%2 == 0 {
					return forgotten
				}
				return ends
			}, both[1])
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "a long document", more: "get video", says: []string{"from 10m until Done, as a rule"},
		happens: func(f *trial) {
			workers := f.busy()
			d := f.submitOnly(workers[0], "video")
			f.paused.Store(true)
			time.Sleep(10 * time.Minute)
			f.paused.Store(false)
			f.done(workers[0], d, 10*time.Minute)
			f.submitOnly(workers[0], "video")
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "poison", more: "get acme", says: []string{"Its oldest document, w2-", "it takes long, fails again and again"},
		found: []truth{{check: "poison", customers: []string{"acme"}}},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			f.done(workers[1], f.submitOnly(workers[1], "acme"), 0)
			f.send(workers[0], customers(400)...)
			bad := f.submit(workers[1], "acme", 1)[0]
			f.serve(20*time.Millisecond, func(d *document) fate {
				if d == bad {
					return fails
				}
				return ends
			}, workers...)
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "a new customer's long document", more: "get novice", says: []string{"it takes long or is stuck: how long this customer's documents take is not known yet"},
		found: []truth{{check: "poison", customers: []string{"novice"}}},
		happens: func(f *trial) {
			f.submitOnly(f.busy()[2], "novice")
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "stuck", more: "get acme", says: []string{"the oldest for 2m", "and others are done far sooner"},
		found: append(allow("done"), truth{check: "stuck", customers: []string{"acme"}, documents: func(d *document) bool { return d.waits() && d.Level > 1 }}),
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			f.queue.upTo = 1
			f.serve(20*time.Millisecond, allEnd, workers...)
			f.send(workers[0], customers(400)...)
			f.submit(workers[1], "acme", 20)
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "nobody serves", more: "top -once", says: []string{"stuck: No document of any level was done in the last minute; 20 pending"},
		found: []truth{{check: "stuck", customers: []string{"acme"}, documents: (*document).waits}},
		happens: func(f *trial) {
			f.submit(f.workers("w1")[0], "acme", 20)
			time.Sleep(2 * time.Minute)
		},
	},
	{
		name: "slow", more: "top -once", says: []string{"waits: level 1: median 5.8s"}, found: []truth{{check: "waits"}},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			for i := range 400 {
				f.done(workers[0], f.submitOnly(workers[0], fmt.Sprint("customer-", i)), time.Millisecond)
			}
			time.Sleep(70 * time.Second)
			documents := f.submit(workers[1], "acme", 2)
			time.Sleep(5 * time.Second)
			for _, d := range documents {
				f.done(workers[1], d, time.Second)
			}
		},
	},
	{
		name: "flood", more: "get archive", says: []string{"archive floods: 2,", "beyond the last load are pending", "The first document of the flood that still waits is from"}, found: []truth{floods("archive")},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			f.submit(workers[0], "archive", 3000)
			f.serve(200*time.Millisecond, allEnd, workers...)
			time.Sleep(10 * time.Second)
			f.numbersAreRight()
			holds(f.T, f.ok("list", "-level", "8"), "archive")
		},
	},
	{
		name: "many floods", more: "list -level 7", says: []string{"flood-29"}, found: []truth{floods(manyFloods...)},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			for i, name := range manyFloods {
				f.submit(workers[i%2], name, 300)
			}
			f.numbersAreRight()
			if out := f.ok("status"); strings.Count(out, "\n") > 24 {
				f.Errorf("status is long:\n%s", out)
			}
		},
	},
	{
		name: "more customers than a report names", more: "top -once", says: []string{"3 workers here; 900 documents"},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2", "w3")
			for i := range 150 {
				for n, w := range workers {
					f.submit(w, fmt.Sprint("customer-", i), 1+(i+n)%3)
				}
			}
			f.serve(100*time.Millisecond, allEnd, workers...)
			time.Sleep(10 * time.Second)
			f.numbersAreRight()
		},
	},
	{
		name: "one counts and one floods", more: "get counted", says: []string{"counted is slow because of 60 documents since the last reset"},
		found: []truth{floods("archive"), {check: "floods", customers: []string{"counted"}, fine: true}},
		happens: func(f *trial) {
			workers := f.workers("w1", "w2")
			f.submit(workers[0], "archive", 300)
			f.decide(workers[1], "counted", 60, priority.ByCount, 0)
		},
	},
	{
		name: "overridden", more: "override list", says: []string{"pinned to level 1 archive", `"a demo"`},
		found: []truth{floods("archive"), {check: "floods", customers: []string{"archive"}}},
		happens: func(f *trial) {
			worker := f.workers("w1")[0]
			f.submit(worker, "archive", 300)
			f.ok("override", "set", "archive", "-level", "1", "-for", "2h", "-why", "a demo")
			f.submit(worker, "archive", 40)
		},
		remedy: func(f *trial) { f.ok("override", "end", "archive", "-why", "it is over") },
		after:  []truth{floods("archive"), {check: "stuck", allowed: true}},
	},
	{
		name: "an old override", more: "get acme", says: []string{"pinned to level 9, until", `"a test"`},
		found: []truth{{check: "overrides", customers: []string{"acme"}, fine: true}},
		happens: func(f *trial) {
			f.busy()
			const export = `{"format": 1, "overrides": [{"customer": "acme", "override": "=9", "by": "mary", "why": "a test", "at": %q, "until": %q}]}`
			at := func(hours time.Duration) string { return time.Now().Add(hours * time.Hour).UTC().Format(time.RFC3339) }
			f.reading(fmt.Sprintf(export, at(-25), at(10))).ok("control", "import", "-", "-why", "it was lost")
		},
		remedy: func(f *trial) { f.ok("override", "end", "acme", "-why", "it is over") },
	},
	{
		name: "wrong calls", more: "top -once", says: []string{"7 were wrong calls"}, found: []truth{{check: "errors", documents: func(d *document) bool { return d.failed }}},
		happens: func(f *trial) { f.submit(f.busy()[2], "", 7) },
	},
	{
		name: "a worker's clock", more: "workers", says: []string{"yes late"}, found: []truth{{check: "clock", workers: []string{"late"}}},
		happens: func(f *trial) {
			f.reports(fleet.Report{ID: "late", Digest: f.busy()[0].Report().Digest, Written: time.Now().Add(-off)})
		},
	},
	{
		name: "Redis's clock", more: "get acme", says: []string{"Redis's clock is 10m behind this machine's"}, found: []truth{{check: "clock", workers: []string{}}},
		happens: func(f *trial) {
			f.redis.Pass(-off)
			f.busy()
		},
	},
	{
		name: "Redis's clock went back", more: "get acme", says: []string{"Redis's clock went back, and they count when it is where it was"},
		found: []truth{{check: "clock", customers: []string{"acme"}, documents: (*document).waits}, {check: "clock", workers: []string{}}},
		happens: func(f *trial) {
			f.submit(f.workers("w1", "w2")[0], "acme", 20)
			time.Sleep(6 * time.Second)
			f.redis.Pass(-off)
		},
	},
	{
		name: "Redis is emptied", more: "workers", says: []string{"Redis lost policies: version 1 was known, none is there"},
		found: append(allow("workers", "done"), truth{check: "data"}, truth{check: "policies"}),
		happens: func(f *trial) {
			f.busy()
			f.ok("policy", "apply", "default", "-why", "a test")
			f.ok("override", "set", "acme", "-level", "2", "-for", "5h", "-why", "a test")
			f.stdin = f.ok("control", "export")
			f.redis.Server.FlushAll()
			time.Sleep(12 * time.Second)
			f.refused(exitFailed, "nothing was exported", "control", "export")
		},
		remedy: func(f *trial) { f.ok("control", "import", "-", "-why", "Redis was empty") }, after: allow("workers", "done"),
	},
	{
		name: "Redis is older", more: "workers", says: []string{"Redis lost policies: version 2 was known, 1 is there"},
		found: append(allow("workers"), truth{check: "policies"}),
		happens: func(f *trial) {
			f.busy()
			f.ok("policy", "apply", "default", "-why", "a test")
			policies := keys.Prefix("").Policies()
			old := f.client.Get(f.Context(), policies).Val()
			f.ok("policy", "apply", "default", "-why", "another test")
			f.stdin = f.ok("control", "export")
			time.Sleep(6 * time.Second)
			f.client.Set(f.Context(), policies, old, 0)
		},
		remedy: func(f *trial) { f.ok("control", "import", "-", "-force", "-why", "Redis was older") }, after: allow("workers"),
	},
	{
		name: "an override is lost", more: "ping", says: []string{"it does not know what operators changed"}, found: []truth{{check: "data"}},
		happens: func(f *trial) {
			f.busy()
			f.ok("override", "set", "acme", "-level", "1", "-for", "2h", "-why", "a test")
			f.stdin = f.ok("control", "export")
			time.Sleep(6 * time.Second)
			f.client.Del(f.Context(), keys.Prefix("").Log(), keys.Prefix("").Overrides(), keys.Prefix("").Of("acme", keys.Override))
		},
		remedy: func(f *trial) { f.ok("control", "import", "-", "-force", "-why", "Redis was older") },
	},
	{
		name: "a corrupt key", more: "list -corrupt", says: []string{"corrupt", "forge, priority:{forge}:pending"}, found: []truth{{check: "corrupt", customers: []string{"forge"}}},
		happens: func(f *trial) {
			workers := f.busy()
			f.client.RPush(f.Context(), keys.Prefix("").Of("forge", keys.Pending), "x")
			f.submit(workers[2], "forge", 7)
		},
		remedy: func(f *trial) {
			f.reading(f.ok("list", "-corrupt", "-json")).ok("reset", "-all", "-yes", "-from", "-", "-why", "a test")
		},
	},
	{
		name: "corrupt policies", more: "workers", says: []string{"the policies' key is corrupt"}, found: append(allow("workers"), truth{check: "policies"}),
		happens: func(f *trial) {
			f.busy()
			f.ok("policy", "apply", "default", "-why", "a test")
			time.Sleep(6 * time.Second)
			f.client.Set(f.Context(), keys.Prefix("").Policies(), "junk", 0)
		},
		remedy: func(f *trial) { f.ok("policy", "apply", "default", "-why", "another test") }, after: allow("workers"),
	},
}

const off = 10 * time.Minute // how wrong a clock is

var manyFloods = func() (names []string) {
	for i := range 30 {
		names = append(names, fmt.Sprint("flood-", i))
	}
	return names
}()

// busy lets three workers submit and serve documents of many customers.
func (f *trial) busy() []*worker {
	f.Helper()
	all := f.workers("w1", "w2", "w3")
	f.serve(20*time.Millisecond, allEnd, all...)
	f.send(all[0], customers(20, "acme", "bakery")...)
	f.send(all[1], customers(20, "chemist", "deli")...)
	time.Sleep(20 * time.Second)
	return all
}

// reports lets a process report what no member can be made to.
func (f *trial) reports(r fleet.Report) {
	r.Levels, r.Overrides = 9, true
	f.serving.Go(func() {
		for ; f.ctx.Err() == nil; time.Sleep(5 * time.Second) {
			if !r.Written.IsZero() {
				r.Written = r.Written.Add(5 * time.Second)
			}
			write(f.T, f.client, r, 0)
		}
	})
}

// submitOnly lets a worker submit a document that nobody takes.
func (f *trial) submitOnly(w *worker, customer string) *document {
	f.Helper()
	return f.decide(w, customer, 1, priority.ByLoad, 0)[0]
}

// floods says who floods, and how many documents there are beyond the last load.
func floods(names ...string) truth {
	return truth{check: "floods", customers: names, fine: true, documents: (*document).floods}
}

// without says of how many documents there is no Done, and by whose fault.
func without(workers []string) truth {
	return truth{check: "done", workers: workers, atLeast: true, documents: func(d *document) bool { return d.waits() && d.forgotten }}
}
