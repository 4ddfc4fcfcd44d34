package main

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/insight"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/redis/go-redis/v9"
)

// reported writes reports as workers do.
func reported(t *testing.T, client redis.UniversalClient, reports ...fleet.Report) {
	t.Helper()
	if err := writeReports(t.Context(), client, reports); err != nil {
		t.Fatal(err)
	}
}

func writeReports(ctx context.Context, client redis.UniversalClient, reports []fleet.Report) error {
	now, err := client.Time(ctx).Result()
	if err != nil {
		return err
	}
	const lasts = 30 * time.Second
	for _, r := range reports {
		text, err := json.Marshal(r)
		if err != nil {
			return err
		}
		client.Set(ctx, "priority:{fleet}:"+r.ID, text, lasts)
		if err := client.ZAdd(ctx, "priority:{fleet}:members", redis.Z{Score: float64(now.Add(lasts).UnixMilli()), Member: r.ID}).Err(); err != nil {
			return err
		}
	}
	return nil
}

// working writes reports again and again, of workers that follow what operators set.
func working(t *testing.T, client redis.UniversalClient, reports ...fleet.Report) {
	t.Helper()
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	reported(t, client, reports...)
	go func() {
		for t.Context().Err() == nil {
			settings, err := admin.Settings(t.Context())
			for i := range reports {
				reports[i].Rules.Version = 0
				if err == nil && settings.Rules != nil {
					reports[i].Rules.Version = settings.Rules.Version
				}
			}
			_ = writeReports(t.Context(), client, reports) // Redis ends with the test
			time.Sleep(100 * time.Millisecond)
		}
	}()
}

// counting is a worker that has given documents of acme, bakery and first the levels that
// count gives them, of 30, 5 and 1 documents.
func counting() fleet.Report {
	return fleet.Report{
		ID: "w1", Name: "w1", Language: "go", Version: "0.1.0", Host: "a", PID: 7, Up: 2 * time.Hour, Window: time.Minute, Levels: 9, Overrides: true,
		ByCount: map[priority.Level]int64{1: 7, 2: 4, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 6, 9: 9},
		Busiest: []fleet.Busy{
			{Customer: "acme", Documents: 30, Rule: priority.ByCount, Level: 9, Count: -29},
			{Customer: "bakery", Documents: 5, Rule: priority.ByCount, Level: 2, Count: -4},
			{Customer: "first", Documents: 1, Rule: priority.ByCount, Level: 1},
		},
	}
}

// submitting is a worker that has given 11 documents of clinic levels by load, and worked
// on others.
func submitting() fleet.Report {
	return fleet.Report{
		ID: "w2", Name: "w2", Language: "python", Version: "0.1.0", Host: "b", PID: 7, Up: 5 * time.Minute, Window: time.Minute, Levels: 9, Overrides: true,
		ByLoad: map[priority.Level]int64{1: 2, 2: 6, 3: 3},
		Waits:  map[priority.Level]fleet.Histogram{1: {31: 9, 40: 1}, 3: {54: 40}},
		Busiest: []fleet.Busy{
			{Customer: "clinic", Documents: 11, Rule: priority.ByLoad, Level: 3, Load: 121},
		},
	}
}

func TestTopPrintsOnceWithoutATerminal(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	holds(t, o.told("top"), "no worker has reported in the last 30s", "LEVEL DOCUMENTS 1 0 2 0")
	count(t, client, map[string]int{"acme": 30, "bakery": 5, "first": 1, "unreported": 70})
	reported(t, client, counting())
	text := o.told("top", "-customers", "2")
	holds(t, text, "1 worker: 36 documents in the last 1m", "LEVEL DOCUMENTS 1 7 █", "9 9 ██", "LAST NEXT COUNT DOCUMENTS RESETS IN CUSTOMER 9 9 -29 30 ", "2 3 -4 5 ")
	if strings.Index(text, "acme") > strings.Index(text, "bakery") || strings.Contains(text, "first") || strings.Contains(text, "unreported") || strings.Contains(text, "MEDIAN") {
		t.Errorf("got\n%s", text)
	}
	submit(t, client, "clinic", 11)
	reported(t, client, submitting())
	text = o.told("top")
	fits(t, text)
	holds(t, text, "2 workers: 47 documents in the last 1m", "LEVEL BY COUNT BY LOAD MEDIAN 95TH OLDEST", "1 7 2 215ms 1.024s - ███", "3 2 3 12s 12s ",
		"LAST NEXT RULE COUNT/LOAD DOCUMENTS PENDING OLDEST CUSTOMER", "9 9 count -29 30 - - acme", "3 3 load 201.6 11 11 ")
	if lines := strings.Split(o.told("top", "-sort", "level", "-filter", "C"), "CUSTOMER\n"); len(lines) != 2 || strings.Contains(lines[1], "bakery") || strings.Index(lines[1], "acme") > strings.Index(lines[1], "clinic") {
		t.Errorf("got %q", lines)
	}

	var object insight.Snapshot
	if err := json.Unmarshal([]byte(o.told("top", "-json")), &object); err != nil {
		t.Fatal(err)
	}
	// The oldest of clinic's documents is of the level of its newest one.
	if got := object.Levels[2]; got.OldestMS <= 0 || got.ByCount != 2 || got.ByLoad != 3 || len(object.Levels) != 9 || object.Workers != 2 || object.WindowMS != 60_000 {
		t.Errorf("got %#v", object)
	}
	if len(object.Busiest) != 4 || object.Busiest[0].Customer != "acme" || object.Busiest[0].Documents != 30 || object.Busiest[1].Pending != 11 || object.Busiest[1].LastLevel != 3 {
		t.Errorf("got %#v", object.Busiest)
	}
	if got := slices.Sorted(maps.Keys(objects(t, o.told("top", "-json"))[0])); !slices.Contains(got, "policy") {
		t.Errorf("got %q", got)
	}
	o.refused(2, "-interval", "top", "-interval", "1ms")
	o.refused(2, `-sort "size" is not one of documents, level, number, pending, oldest, name`, "top", "-sort", "size")
}

// What does not do what is set, and what is corrupt, is said.
func TestTopAndWorkersNameWhoDoesNotObey(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	if got := o.told("workers"); got != "No worker has reported in the last 30s: those that use fleet.Join do.\n" {
		t.Errorf("got %q", got)
	}
	deaf, small := submitting(), counting()
	deaf.Overrides, deaf.Degraded = false, true
	small.Rules.Error = "the rules are written\x1b[2J for later programs"
	client.ZAdd(t.Context(), "priority:{clinic}:pending", redis.Z{Member: ":averages", Score: 0})
	reported(t, client, deaf, small)
	holds(t, o.told("top"), "2 workers, 1 degraded: 47 documents", "none of 2 workers obeys; w1 on host a does not: ", "w2 on host b (python) does not: it does not read overrides", "3 - corrupt 11 clinic")
	text := o.told("workers")
	fits(t, text)
	holds(t, text, "LANGUAGE VERSION UP RULES OVERRIDES OBEYS WORKER go 0.1.0 2h own yes no w1 on a \"the rules are", "python 0.1.0 5m", "own no no w2 on b, degraded it does not read overrides")
	if strings.Contains(text, "\x1b") {
		t.Errorf("a terminal would obey it: %q", text)
	}
	got := objects(t, o.told("workers", "-json"))
	sameFields(t, got[1], map[string]any{"id": "w2", "name": "w2", "language": "python", "version": "0.1.0", "host": "b", "pid": 7., "levels": 9., "degraded": true, "overrides": false, "rules": 0., "documents": 11., "obeys": false, "why": "it does not read overrides"})
	holds(t, o.told("ping"), "workers warning none of 2 workers obeys", "priorityctl control import")
}

// A wait that everybody of a level has, and the oldest document of the customer.
func TestGetTellsHowLongDocumentsTake(t *testing.T) {
	t.Parallel()
	o, client := started(t)
	count(t, client, map[string]int{"first": 1})
	submit(t, client, "clinic", 11)
	if text := o.told("get", "clinic", "first"); strings.Contains(text, "in the median") {
		t.Errorf("nobody reports:\n%s", text)
	}
	reported(t, client, submitting())
	holds(t, o.told("get", "clinic"), "waits level 3: 12s in the median of the last minute, 95 % at most 12s",
		"Documents of level 3 took 12s in the median of the last minute; the customer's oldest waits ")
	holds(t, o.told("get", "first"), "Documents of level 1 took 215ms in the median of the last minute.")
	sameFields(t, objects(t, o.told("get", "clinic", "-json"))[0], map[string]any{"level_done": 40., "level_median_ms": 11585., "level_p95_ms": 11585.})
}

func TestTopSaysWhichRightItLacks(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	count(t, server.Client(), map[string]int{"acme": 30})
	reported(t, server.Client(), counting())
	may := userOf(t, server, "may", "~priority:* "+insight.PeekRights+" "+insight.ReportRights)
	holds(t, may.told("top"), "1 worker: 36 documents", "9 9 -29 30 ")
	holds(t, may.told("workers"), "w1 on a")
	lacks := userOf(t, server, "lacks", "~priority:* "+insight.PeekRights)
	for _, command := range []string{"top", "workers"} {
		lacks.refused(1, "it needs "+insight.ReportRights+" on the keys ~priority:{fleet}:*", command)
	}
	holds(t, lacks.told("get", "acme"), "acme is slow")
}
