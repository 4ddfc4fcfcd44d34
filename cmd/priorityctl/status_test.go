package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/cmd/priorityctl/internal/insight"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// situation is a fleet's Redis, as an incident leaves it.
type situation struct {
	*testing.T
	server *redistest.Server
	client *redis.Client
}

// works writes the report of a worker that is here, with what a process with fleet.Join has.
func (s situation) works(name string, change func(*fleet.Report)) {
	r := fleet.Report{ID: name, Name: name, Levels: 9, Overrides: true, Digest: "d", Written: time.Now(), Submitted: 100, Ended: 100}
	if change != nil {
		change(&r)
	}
	write(s.T, s.client, r, 0)
}

// doing is a worker that was busy for customers, and ended documents of levels within a second.
func (s situation) doing(customers []string, levels ...priority.Level) {
	s.works("w1", func(r *fleet.Report) {
		r.Waits, r.FirstHour = map[priority.Level]fleet.Histogram{}, fleet.Histogram{40: 100}
		for _, level := range levels {
			r.Waits[level] = fleet.Histogram{40: 100}
		}
		for _, name := range customers {
			r.Busiest = append(r.Busiest, fleet.Busy{Customer: name, Rule: priority.ByLoad, Level: 1, Documents: 9, Pending: 9})
		}
	})
}

// waits makes documents pending since a while, of a level: of a flood, beyond 5.
func (s situation) waits(customer string, documents int, level int64, ago time.Duration) {
	at := 256*time.Now().Add(-ago).UnixMilli() + level
	if level > 5 {
		at = -at
	}
	all := []redis.Z{{Member: ":fades", Score: float64(time.Now().Add(240 * time.Hour).UnixMilli())}, {Member: ":averages", Score: 10_001_000}}
	for i := range documents {
		all = append(all, redis.Z{Member: fmt.Sprint("document ", i), Score: float64(at)})
	}
	s.client.ZAdd(s.Context(), "priority:{"+customer+"}:pending", all...)
}

// findings are what status has to find, in data and in words.
var findings = map[string]struct {
	incident  func(s situation)
	check     string
	status    insight.Outcome
	words     string // of what was found, or of the remedy
	customers []string
	workers   []string
	documents int64
}{
	"no worker": {func(situation) {}, "workers", insight.Warning, "no worker has reported in the last hour with the prefix priority → start workers", nil, nil, 0},
	"other prefix": {func(s situation) {
		s.works("w1", nil)
		s.client.Rename(s.Context(), "priority:{fleet}:members", "typo:{fleet}:members")
		s.client.Rename(s.Context(), "priority:{fleet}:w1", "typo:{fleet}:w1")
	}, "prefix", insight.Warning, "1 worker with the prefix typo → if they are of this fleet, give all", nil, []string{"w1"}, 0},
	"other database": {func(s situation) {
		s.works("w1", nil)
		s.client.Move(s.Context(), "priority:{fleet}:members", 3)
		s.client.Move(s.Context(), "priority:{fleet}:w1", 3)
	}, "prefix", insight.Warning, "1 worker with the prefix priority in database 3", nil, []string{"w1"}, 0},
	"gone": {func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Up = time.Hour })
		write(s.T, s.client, fleet.Report{ID: "w2", Name: "w2", Host: "b", Levels: 9, Overrides: true}, 4*time.Minute)
	}, "gone", insight.Warning, "no report from 1 worker for half a minute or more: w2 on b, last seen 4m", nil, []string{"w2"}, 0},
	"degraded": {func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Degraded = true })
	}, "degraded", insight.Warning, "w1: Redis was not reached at the latest report", nil, []string{"w1"}, 0},
	"other policies": {func(s situation) {
		s.works("w1", nil)
		s.works("w2", nil)
		s.works("w3", func(r *fleet.Report) { r.Digest = "other" })
	}, "digest", insight.Warning, "w3: decisions by other policies than others'", nil, []string{"w3"}, 0},
	"some split accounts": {func(s situation) {
		s.works("w1", nil)
		s.works("w2", func(r *fleet.Report) { r.Accounts = true })
		s.works("w3", nil)
	}, "digest", insight.Warning, "w2: names are split into accounts and users; not so by most → give all processes the same option", nil, []string{"w2"}, 0},
	"a worker's clock": {func(s situation) {
		s.works("w1", nil)
		s.works("w2", func(r *fleet.Report) { r.Written = r.Written.Add(-10 * time.Minute) })
	}, "clock", insight.Warning, "w2: the clock is up to 10m", nil, []string{"w2"}, 0},
	"a clock that went back": {func(s situation) {
		s.doing([]string{"acme"})
		s.waits("acme", 3, 1, -10*time.Minute)
	}, "clock", insight.Warning, "3 documents of acme are due later, and none was submitted with a delay: Redis's clock went back", []string{"acme"}, nil, 3},
	"Redis full": {func(s situation) {
		s.works("w1", nil)
		s.client.ConfigSet(s.Context(), "maxmemory", "1mb")
	}, "waits", insight.Warning, "not known: no report is written while Redis is full", nil, nil, 0},
	"poison": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.waits("acme", 1, 1, 2*time.Minute)
	}, "poison", insight.Warning, `"document 0" of acme waits at level 1 for 2m, though 95 of 100 of the level were done within 1s → it takes long, fails again and again`, []string{"acme"}, nil, 1},
	"poison, alone": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.waits("acme", 1, 2, 2*time.Minute)
	}, "poison", insight.Warning, `of acme waits at level 2 for 2m, while others are done`, []string{"acme"}, nil, 1},
	"poison, beyond its lease": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.waits("acme", 1, 2, 21*time.Minute)
	}, "poison", insight.Warning, `of acme waits at level 2 for 21m, longer than its lease, so it counts no more`, []string{"acme"}, nil, 1},
	"no Done by one": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.works("w2", func(r *fleet.Report) { r.Ended = 0 })
		s.waits("acme", 5, 1, 2*time.Minute)
	}, "done", insight.Warning, "at least 5 documents of acme: no Done, while others are done soon; the oldest for 2m. w2 submitted documents in the last hour and ended none, while 1 other did both → call Done",
		[]string{"acme"}, []string{"w2"}, 5},
	"no Done, and the lease has ended": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.works("w2", func(r *fleet.Report) { r.Submitted, r.Ended = 0, 0 })
		s.waits("acme", 5, 1, 20*time.Minute)
	}, "done", insight.Warning, "at least 5 documents of acme: no Done within the lease in the last hour, so presumed lost. w2 neither submitted nor ended any", []string{"acme"}, []string{"w2"}, 5},
	"producers and workers are two": {func(s situation) {
		s.works("w2", func(r *fleet.Report) { r.Ended = 0 })
		s.works("w1", func(r *fleet.Report) {
			r.Submitted, r.Waits = 0, map[priority.Level]fleet.Histogram{1: {40: 100}}
			r.Busiest = []fleet.Busy{{Customer: "acme", Rule: priority.ByLoad, Level: 1, Pending: 9}}
		})
		s.waits("acme", 5, 1, 2*time.Minute)
	}, "done", insight.Warning, "All workers together submitted 100 in the last hour and ended 100", []string{"acme"}, nil, 5},
	"nothing is done": {func(s situation) {
		s.doing([]string{"acme"})
		s.waits("acme", 5, 3, 2*time.Minute)
	}, "stuck", insight.Warning, "No document of any level was done in the last minute; 5 pending at level 3, the oldest for 2m → see whether workers take", []string{"acme"}, nil, 5},
	"behind others": {func(s situation) {
		s.works("w1", func(r *fleet.Report) {
			r.Waits = map[priority.Level]fleet.Histogram{1: {64: 100}} // a minute each
			r.Busiest = []fleet.Busy{{Customer: "acme", Rule: priority.ByLoad, Level: 1, Pending: 9}, {Customer: "globex", Rule: priority.ByLoad, Level: 1, Pending: 9}}
		})
		s.waits("acme", 5, 3, 2*time.Minute)
		s.waits("globex", 2, 4, 2*time.Minute)
	}, "stuck", insight.Warning, "No document of level 3–4 was done in the last minute; 7 pending, the oldest for 2m; most are of acme → documents before them were done: add workers", []string{"acme", "globex"}, nil, 7},
	"passed by others": {func(s situation) {
		s.doing([]string{"acme"}, 1, 5)
		s.waits("acme", 5, 3, 2*time.Minute)
	}, "stuck", insight.Warning, "of others some were done → they do not wait for others", []string{"acme"}, nil, 5},
	"a flood": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.waits("acme", 300, 7, time.Minute)
	}, "floods", insight.OK, "1 customer, 300 documents beyond the last load; of the last minute's documents at levels 1 to 5, half were done within 1s, 95 of 100 within 1s", []string{"acme"}, nil, 300},
	"by count": {func(s situation) {
		count(s.T, s.client, map[string]int{"acme": 30})
		s.works("w1", func(r *fleet.Report) {
			r.ByCount, r.Busiest = map[priority.Level]int64{1: 3}, []fleet.Busy{{Customer: "acme", Documents: 30, Rule: priority.ByCount, Level: 9, Count: -29}}
		})
	}, "floods", insight.OK, "1 customer at level 9 by count: acme. Next does not know what waits", []string{"acme"}, nil, 0},
	"an override in a flood": {func(s situation) {
		s.doing([]string{"acme"}, 1)
		s.waits("acme", 300, 7, time.Minute)
		s.client.Set(s.Context(), "priority:{acme}:override", "=1", time.Hour)
	}, "floods", insight.Warning, "an override to an earlier level: acme. Their next documents go before others' from now on; queued ones keep their level → priorityctl override end -why '' acme ends one", []string{"acme"}, nil, 0},
	"an override that was forgotten": {func(s situation) {
		s.works("w1", nil)
		s.client.Set(s.Context(), "priority:{acme}:override", fmt.Sprintf(`=9 {"by":"mary","why":"x","at":%d}`, time.Now().Add(-48*time.Hour).UnixMilli()), 99*time.Hour)
		s.client.ZAdd(s.Context(), "priority:{control}:overrides", redis.Z{Score: float64(time.Now().Add(99 * time.Hour).UnixMilli()), Member: "acme"})
	}, "overrides", insight.OK, "at the last level for more than a day: acme → if that is over: priorityctl override end -why '' acme", []string{"acme"}, nil, 0},
}

// Each incident is found, as data and in words.
func TestStatus_Findings(t *testing.T) {
	t.Parallel()
	for name, f := range findings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			f.incident(situation{t, server, server.Client()})
			_, out, _ := operatorOn(t, "-redis", "redis://"+server.Addr).ask("status", "-json")
			var status struct {
				OK     bool
				Checks []insight.Check
			}
			if err := json.Unmarshal([]byte(out), &status); err != nil {
				t.Fatal(err)
			}
			for _, c := range status.Checks {
				var customers []string
				for _, name := range c.Customers {
					customers = append(customers, name.Exact())
				}
				if c.Check == f.check && c.Status == f.status && strings.Contains(c.Found+" → "+c.Remedy, f.words) && slices.Equal(customers, f.customers) &&
					slices.Equal(c.Workers, f.workers) && c.Documents == f.documents && status.OK == (insight.Worst(status.Checks) == insight.OK) {
					return
				}
			}
			t.Errorf("not found in\n%s", strings.ReplaceAll(out, "},{", "},\n{"))
		})
	}
}

// Many floods are one line, and a list of the largest; another incident stands in few lines, too.
func TestStatus_Short(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	s := situation{T: t, client: client}
	var names []string
	for i := range 24 {
		names = append(names, fmt.Sprint("flood-", i))
		s.waits(names[i], 10+i, 7, time.Minute)
	}
	s.doing(names, 1)
	out := o.ok("status")
	holds(t, out, "24 customers, 516 documents beyond the last load", "flood-23: 33, the first of them from", "flood-19: 29", "19 more: priorityctl status -json")
	if lines := strings.Count(out, "\n"); lines > 24 {
		t.Errorf("%d lines", lines)
	}
}

// A Redis that cannot be reached is a check, too; any command says what to do.
func TestStatus_Away(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	o := operatorOn(t, "-redis", "redis://"+server.Addr)
	for _, format := range []string{"-json=false", "-json"} {
		status, out, _ := o.ask("status", format)
		if holds(t, out, "connection refused", "start it, or see its machine"); status != exitUnreachable {
			t.Errorf("status %d", status)
		}
	}
	o.refused(exitUnreachable, "connection refused; start it, or see its machine", "get", "acme")
}

// What cannot be written was not said.
func TestOutput_Full(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("there is no /dev/full here: ", err)
	}
	defer full.Close()
	o, client := started(t)
	count(t, client, map[string]int{"acme": 30})
	for _, command := range []string{"status", "list", "workers", "top", "log", "policy"} {
		var stderr strings.Builder
		status := run(t.Context(), o.environment, append([]string{command}, o.flags...), nil, full, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "cannot write the output: ") {
			t.Errorf("%s has status %d and says %q", command, status, stderr.String())
		}
	}
}
