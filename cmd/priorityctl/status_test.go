package main

import (
	"encoding/json"
	"fmt"
	"os"
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
	client *redis.Client
}

// works writes the report of a worker that is here.
func (s situation) works(name string, change func(*fleet.Report)) {
	r := fleet.Report{ID: name, Name: name, Up: time.Minute, Levels: 9, Overrides: true, Digest: "d", Written: time.Now(), Submitted: 100, Ended: 100}
	change(&r)
	write(s.T, s.client, r, 0)
}

func same(*fleet.Report) {}

// done are documents of level 1, each of which took so long.
func done(took time.Duration) func(*fleet.Report) {
	return func(r *fleet.Report) {
		bucket := map[time.Duration]int{time.Second: 40, time.Minute: 64}[took]
		r.Waits, r.FirstHour = map[priority.Level]fleet.Histogram{1: {bucket: 100}}, fleet.Histogram{bucket: 100}
	}
}

// waits makes documents of a level pending since a while, and has a worker name the customer.
func (s situation) waits(customer string, documents int, level int64, ago time.Duration) {
	at := 256*time.Now().Add(-ago).UnixMilli() + level
	if level > 5 { // a flood's
		at = -at
	}
	all := []redis.Z{{Member: ":fades", Score: float64(time.Now().Add(240 * time.Hour).UnixMilli())}, {Member: ":averages", Score: 10_001_000}}
	for i := range documents {
		all = append(all, redis.Z{Member: fmt.Sprint("document-", i), Score: float64(at)})
	}
	s.client.ZAdd(s.Context(), "priority:{"+customer+"}:pending", all...)
	s.works("w for "+customer, func(r *fleet.Report) {
		r.Busiest = []fleet.Busy{{Customer: customer, Rule: priority.ByLoad, Level: 1, Documents: 9, Pending: 9}}
	})
}

// findings are incidents, and what status says of each: check, status, customers, workers, documents
// and words.
var findings = []struct {
	incident func(s situation)
	want     string
}{
	{func(situation) {}, "workers warning [] [] 0: no worker has reported in the last hour with the prefix priority → start workers"},
	{func(s situation) {
		s.works("w1", same)
		for _, key := range []string{"members", "w1"} {
			s.client.Rename(s.Context(), "priority:{fleet}:"+key, "typo:{fleet}:"+key)
			s.client.Move(s.Context(), "typo:{fleet}:"+key, 3)
		}
	}, "prefix warning [] [w1] 0: other workers report to this server: 1 worker with the prefix typo in database 3 → if they are of this fleet, give"},
	{func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Up = time.Hour })
		write(s.T, s.client, fleet.Report{ID: "w2", Name: "w2", Host: "b", Levels: 9, Overrides: true}, 4*time.Minute)
	}, "gone warning [] [w2] 0: no report from 1 worker for half a minute or more: w2 on b, last seen 4m"},
	{func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Degraded = true })
	}, "degraded warning [] [w1] 0: w1: Redis was not reached at the latest report"},
	{func(s situation) {
		s.works("w1", same)
		s.works("w2", same)
		s.works("w3", func(r *fleet.Report) { r.Digest, r.Accounts = "other", true })
	}, "digest warning [] [w3] 0: w3: decisions by other policies than others', or by another version of the library → compare"},
	{func(s situation) {
		s.works("w1", same)
		s.works("w2", func(r *fleet.Report) { r.Accounts = true })
		s.works("w3", same)
	}, "digest warning [] [w2] 0: w2: names are split into accounts and users; not so by most → give all processes the same option"},
	{func(s situation) {
		s.works("w1", same)
		s.works("w2", func(r *fleet.Report) { r.Written = r.Written.Add(-10 * time.Minute) })
	}, "clock warning [] [w2] 0: w2: the clock is up to 10m"},
	{func(s situation) { s.waits("acme", 3, 1, -10*time.Minute) },
		"clock warning [acme] [] 3: 3 documents of acme are due later, and none was submitted with a delay: Redis's clock went back"},
	{func(s situation) {
		s.works("w1", same)
		s.client.ConfigSet(s.Context(), "maxmemory", "1mb")
	}, "waits warning [] [] 0: not known: no report is written while Redis is full"},
	{func(s situation) {
		s.works("w1", done(time.Second))
		s.waits("acme", 1, 2, 2*time.Minute)
	}, "poison warning [acme] [] 1: document-0 of acme has had no Done for 2m"},
	{func(s situation) { s.waits("acme", 1, 2, 21*time.Minute) }, "poison warning [acme] [] 1: document-0 of acme has had no Done for 21m"}, // beyond its lease
	{func(s situation) {
		s.works("w1", done(time.Second))
		s.works("w2", func(r *fleet.Report) { r.Ended = 0 })
		s.waits("acme", 5, 1, 2*time.Minute)
	}, "done warning [acme] [w2] 5: at least 5 documents of acme: no Done, while others are done far sooner; the oldest for 2m"},
	{func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Submitted, r.Ended = 0, 0 })
		s.waits("acme", 5, 1, 20*time.Minute)
	}, "done warning [acme] [w1] 5: at least 5 documents of acme: no Done within the lease in the last hour, so presumed lost. By their numbers of the last hour these neither submitted"},
	{func(s situation) { // producers and workers are two: none of them says who is to blame
		s.works("w1", func(r *fleet.Report) { r.Ended = 0 })
		s.works("w for acme", same)
		s.waits("acme", 5, 1, 20*time.Minute)
		s.works("w for acme", func(r *fleet.Report) {
			r.Submitted, r.Busiest = 0, []fleet.Busy{{Customer: "acme", Rule: priority.ByLoad, Level: 1, Pending: 9}}
		})
	}, "done warning [acme] [] 5: "},
	{func(s situation) { s.waits("acme", 5, 3, 2*time.Minute) },
		"stuck warning [acme] [] 5: No document of any level was done in the last minute; 5 pending at level 3, the oldest for 2m, of acme → see whether workers take"},
	{func(s situation) {
		s.works("w1", done(time.Minute))
		s.waits("acme", 5, 3, 2*time.Minute)
		s.waits("globex", 2, 4, 2*time.Minute)
	}, "stuck warning [acme globex] [] 7: No document of level 3–4 was done in the last minute; 7 pending, the oldest for 2m, of acme and globex → documents before them are done: add workers"},
	{func(s situation) {
		s.works("w1", done(time.Second))
		s.waits("acme", 300, 7, time.Hour)
	}, "floods ok [acme] [] 300: 1 customer, 300 documents beyond the last load; of the last minute's documents at levels 1 to 5, half were done within 1s, 95 of 100 within 1s"},
	{func(s situation) {
		count(s.T, s.client, map[string]int{"acme": 30})
		s.works("w1", func(r *fleet.Report) {
			r.ByCount, r.Busiest = map[priority.Level]int64{1: 3}, []fleet.Busy{{Customer: "acme", Documents: 30, Rule: priority.ByCount, Level: 9, Count: -29}}
		})
	}, "floods ok [acme] [] 0: 1 customer at level 9 by count: acme. Next does not know what waits"},
	{func(s situation) {
		s.waits("acme", 300, 7, time.Minute)
		s.client.Set(s.Context(), "priority:{acme}:override", "=1", time.Hour)
	}, "floods warning [acme] [] 0: 1 customer with an override to an earlier level: acme. Their next documents go before others' from now on; queued ones keep their level → priorityctl override end -why '' acme"},
	{func(s situation) {
		s.client.Set(s.Context(), "priority:{acme}:override", fmt.Sprintf(`=9 {"by":"mary","why":"x","at":%d}`, time.Now().Add(-48*time.Hour).UnixMilli()), 99*time.Hour)
		s.client.ZAdd(s.Context(), "priority:{control}:overrides", redis.Z{Score: float64(time.Now().Add(99 * time.Hour).UnixMilli()), Member: "acme"})
	}, "overrides ok [acme] [] 0: at the last level for more than a day: acme → if that is over: priorityctl override end -why '' acme"},
}

// Each incident is found, as data and in words.
func TestStatus_Findings(t *testing.T) {
	t.Parallel()
	for _, f := range findings {
		t.Run(f.want, func(t *testing.T) {
			t.Parallel()
			o, client := started(t)
			f.incident(situation{t, client})
			_, out, _ := o.ask("status", "-json")
			var status struct{ Checks []insight.Check }
			if err := json.Unmarshal([]byte(out), &status); err != nil {
				t.Fatal(err)
			}
			var all strings.Builder
			for _, c := range status.Checks {
				names := make([]string, len(c.Customers))
				for i, name := range c.Customers {
					names[i] = name.Exact()
				}
				fmt.Fprintf(&all, "%s %s %v %v %d: %s → %s\n", c.Check, c.Status, names, c.Workers, c.Documents, c.Found, c.Remedy)
			}
			if !strings.Contains(all.String(), f.want) {
				t.Errorf("status says\n%s", all.String())
			}
		})
	}
}

// Many floods are one line, and a list of the largest.
func TestStatus_ManyFloods(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	for i := range 24 {
		situation{t, client}.waits(fmt.Sprint("flood-", i), 10+i, 7, time.Minute)
	}
	if out := o.ok("status"); strings.Count(out, "\n") > 24 {
		t.Errorf("status is long:\n%s", out)
	} else {
		holds(t, out, "24 customers, 516 documents beyond the last load", "flood-23: 33, the first of them from", "flood-19: 29", "19 more: priorityctl status -json")
	}
}

// A Redis that cannot be reached is a check, too; any other command says what to do.
func TestStatus_Away(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	o := operatorOn(t, "-redis", "redis://"+server.Addr)
	for _, format := range []string{"-json=false", "-json"} {
		if status, out, _ := o.ask("status", format); status != exitUnreachable || !strings.Contains(out, "start it") {
			t.Errorf("status %d:\n%s", status, out)
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
	o, _ := started(t)
	for _, command := range []string{"status", "list", "log", "policy"} {
		var stderr strings.Builder
		status := run(t.Context(), o.environment, append([]string{command}, o.flags...), nil, full, &stderr)
		if status != exitFailed || !strings.Contains(stderr.String(), "cannot write the output: ") {
			t.Errorf("%s has status %d and says %q", command, status, stderr.String())
		}
	}
}
