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

// findings are incidents beside those of TestTrial, and what status says of each: check, status, customers, workers, documents
// and words.
var findings = []struct {
	incident func(s situation)
	want     string
}{
	{func(situation) {}, "workers warning [] [] 0: no worker reports with the prefix priority, and none is gone within the hour → start workers"},
	{func(s situation) {
		s.works("w1", same)
		for _, key := range []string{"members", "w1"} {
			s.client.Rename(s.Context(), "priority:{fleet}:"+key, "typo:{fleet}:"+key)
			s.client.Move(s.Context(), "typo:{fleet}:"+key, 3)
		}
	}, "prefix warning [] [w1] 0: other workers report to this server: 1 worker with the prefix typo in database 3 → if they are of this fleet, give"},
	{func(s situation) { // this customer's documents take ten minutes, and others' a second
		s.works("w1", done(time.Second))
		s.waits("video", 1, 1, 2*time.Minute)
		s.client.ZAdd(s.Context(), "priority:{video}:pending", redis.Z{Member: ":averages", Score: 6000*1e6 + 1000})
	}, "done ok [] [] 0: no document is known that lacks its Done"},
	{func(s situation) { s.waits("acme", 1, 2, 21*time.Minute) }, "poison warning [acme] [] 1: document-0 of acme has had no Done for 21m"}, // beyond its lease
	{func(s situation) {
		s.works("w1", func(r *fleet.Report) { r.Submitted, r.Ended = 0, 0 })
		s.waits("acme", 5, 1, 20*time.Minute)
	}, "done warning [acme] [w1] 5: at least 5 documents of acme: no Done within the lease in the last hour, so presumed lost. In the last hour these neither submitted"},
	{func(s situation) { // the worker ends what the API submits
		s.works("api", func(r *fleet.Report) { r.Ended = 0 })
		s.works("worker", func(r *fleet.Report) { r.Submitted = 10 })
		s.waits("acme", 5, 1, 20*time.Minute)
	}, "done warning [acme] [] 5: at least 5 documents of acme: no Done within"},
	{func(s situation) { // producers and workers are two: none of them says who is to blame
		s.works("w1", func(r *fleet.Report) { r.Ended = 0 })
		s.works("w for acme", same)
		s.waits("acme", 5, 1, 20*time.Minute)
		s.works("w for acme", func(r *fleet.Report) {
			r.Submitted, r.Busiest = 0, []fleet.Busy{{Customer: "acme", Rule: priority.ByLoad, Level: 1, Pending: 9}}
		})
	}, "done warning [acme] [] 5: "},
	{func(s situation) { s.waits("acme", 5, 3, 2*time.Minute) },
		"stuck warning [acme] [] 5: No document of any level was done in the last minute; 5 pending at level 3, the oldest for 2m"},
	{func(s situation) {
		s.works("w1", done(time.Minute))
		s.waits("acme", 5, 3, 2*time.Minute)
		s.waits("globex", 2, 4, 2*time.Minute)
	}, "stuck warning [acme globex] [] 7: No document of level 3–4 was done in the last minute; 7 pending, the oldest for 2m"},
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
