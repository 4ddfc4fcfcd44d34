package insight_test

import (
	"encoding/json"
	"fmt"
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

// report writes a report as a worker does.
func report(t *testing.T, client *redis.Client, prefix string, r fleet.Report) {
	t.Helper()
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	written(t, client, prefix, r.ID, string(text))
}

func written(t *testing.T, client *redis.Client, prefix, id, text string) {
	t.Helper()
	now, err := client.Time(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	const lasts = 30 * time.Second
	client.Set(t.Context(), prefix+":{fleet}:"+id, text, lasts)
	if err := client.ZAdd(t.Context(), prefix+":{fleet}:members", redis.Z{Score: float64(now.Add(lasts).UnixMilli()), Member: id}).Err(); err != nil {
		t.Fatal(err)
	}
}

// What is shown is compared with what the callers of two members were told.
func TestASnapshotIsWhatCallersWereTold(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{Prefix: "team"})
	told := map[priority.Level][2]int64{}
	tell := func(rule int, decisions []priority.Decision, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range decisions {
			counts := told[d.Level]
			counts[rule]++
			told[d.Level] = counts
		}
	}
	var members []*fleet.Member
	for _, name := range []string{"w1", "w2"} {
		member, err := fleet.Join(client, &fleet.Options{Name: name, Store: priority.RedisOptions{Prefix: "team", Timeout: -1}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = member.Close(t.Context()) })
		members = append(members, member)
	}
	if _, err := inspector.Admin.SetOverride(t.Context(), "pinned", pin(7), time.Hour, change); err != nil {
		t.Fatal(err)
	}
	documents := make([]string, 60)
	for i := range documents {
		documents[i] = fmt.Sprint(i)
	}
	for _, member := range members {
		decisions, err := member.NextN(t.Context(), "acme", 15)
		tell(0, decisions, err)
		decisions, err = member.NextN(t.Context(), "pinned", 3)
		tell(0, decisions, err)
	}
	decisions, err := members[0].SubmitN(t.Context(), "clinic", documents, nil)
	tell(1, decisions, err)
	decisions, err = members[1].SubmitN(t.Context(), "quick", documents[:2], nil)
	tell(1, decisions, err)
	if _, err := members[1].DoneN(t.Context(), "quick", documents[:2], 0); err != nil {
		t.Fatal(err)
	}

	var found *insight.Snapshot
	redistest.Await(t, "all is reported", func() bool {
		var err error
		if found, err = followed(t, inspector).Snapshot(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
		return found.Documents() == 98
	})
	for _, level := range found.Levels {
		if got := [2]int64{level.ByCount, level.ByLoad}; got != told[level.Level] {
			t.Errorf("level %d: %v, and the callers were told %v", level.Level, got, told[level.Level])
		}
	}
	if found.Workers != 2 || found.ByCount != 36 || found.ByLoad != 62 || found.Overridden != 6 || found.NotObeying != 0 || found.Levels[0].Done+found.Levels[1].Done != 2 || found.Levels[0].MedianMS <= 0 {
		t.Errorf("got %#v", found)
	}
	if got := found.String(); !strings.HasPrefix(got, "2 workers: 98 documents in the last ") || !strings.HasSuffix(got, ", 6 by overrides") {
		t.Errorf("got %s", got)
	}
	// The busiest, as they are now.
	if len(found.Busiest) != 3 || found.Busiest[0].Customer != "clinic" || found.Busiest[0].Documents != 60 || found.Busiest[0].Pending != 60 || !found.Busiest[0].ByLoad() ||
		found.Busiest[1].Customer != "acme" || found.Busiest[1].Count != -29 || found.Busiest[1].NextLevel != 9 || found.Busiest[2].NextLevel != 7 || found.Busiest[2].RuleLevel != 3 {
		t.Errorf("got %+v", found.Busiest)
	}
	oldest := found.Levels[found.Busiest[0].Level-1]
	if oldest.OldestMS == 0 || oldest.OldestMS != found.Busiest[0].OldestMS {
		t.Errorf("got %+v", oldest)
	}

	client.RPush(t.Context(), "team:{acme}:pending", "x")
	found, err = inspector.Snapshot(t.Context(), 2)
	if err != nil || found.Busiest[1].State != nil || found.Busiest[1].Documents != 30 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestWorkersSayWhetherTheyObeyAndWhyNot(t *testing.T) {
	client := redistest.Start(t).Client()
	inspector := steered(t, client, priority.RedisOptions{})
	if _, err := inspector.Admin.Apply(t.Context(), control.Rules{}, change); err != nil {
		t.Fatal(err)
	}
	v1 := fleet.Rules{Version: 1}
	report(t, client, "priority", fleet.Report{ID: "1", Name: "w1", Language: "go", Version: "0.1.0", Host: "a", PID: 7, Up: time.Hour, Levels: 9, Overrides: true, Rules: v1})
	report(t, client, "priority", fleet.Report{ID: "2", Name: "w2", Language: "python", Host: "b", Levels: 9, Rules: v1, Degraded: true})
	report(t, client, "priority", fleet.Report{ID: "3", Name: "w3", Levels: 3, Overrides: true, Rules: fleet.Rules{Error: "the rules are too long"}})
	report(t, client, "priority", fleet.Report{ID: "4", Name: "w4", Levels: 9, Overrides: true})
	written(t, client, "priority", "5", "junk")
	inspector = followed(t, inspector)
	workers, err := inspector.Workers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range workers {
		got = append(got, fmt.Sprintf("%s %v %s", w.Called(), w.Obeys, w.Why))
	}
	want := []string{
		"5 false its report cannot be read", "w1 on a true ", "w2 on b false it does not read overrides",
		"w3 false its queue has 3 levels, the rules 9", "w4 false it still goes by its own options",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if w := workers[1]; w.Version != "0.1.0" || w.PID != 7 || w.Rules != 1 || time.Since(w.Since) < 59*time.Minute || time.Since(w.Since) > 61*time.Minute {
		t.Errorf("got %+v", w)
	}
	found, err := inspector.Snapshot(t.Context(), 3)
	if err != nil || found.NotObeying != 4 || found.Unreadable != 1 || found.Degraded != 1 || !strings.HasPrefix(found.Obedience.Who(), "1 of 5 workers obeys; 5 does not: its report cannot be read; w2 on host b (python) does not:") {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestAFleetThatReportsNothingIsSaidSo(t *testing.T) {
	inspector := inspectorOf(t, redistest.Start(t).Client(), priority.RedisOptions{})
	found, err := inspector.Snapshot(t.Context(), 3)
	if err != nil || found.String() != "no worker has reported in the last 30s: those that use fleet.Join do" || len(found.Levels) != 9 || found.Busiest == nil {
		t.Errorf("got %+v, %v", found, err)
	}
}
