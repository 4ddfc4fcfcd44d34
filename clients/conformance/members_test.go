package conformance_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/named"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/internal/testing/vectors"
)

// members are the processes of one fleet, and what their callers got.
type members struct {
	*testing.T
	client *redis.ClusterClient
	stores map[string]priority.Store // by name; the queue of small has three levels
	got    fleet.Totals
}

// Members in three languages, on a cluster, report what their callers got, and follow what operators set.
func TestMembers(t *testing.T) {
	t.Parallel() // it waits for reports most of the time
	cluster := redistest.StartCluster(t, 3)
	member, err := fleet.Join(cluster.Client(), &fleet.Options{
		Name: "go", Store: priority.RedisOptions{Timeout: enough * time.Millisecond}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &members{T: t, client: cluster.Client(), stores: map[string]priority.Store{"go": member}}
	m.got.ByCount, m.got.ByLoad = make(map[priority.Level]int64), make(map[priority.Level]int64)
	var drivers []*driver
	open := func(name string, p *port, options fields) {
		options["join"], options["as"] = true, name
		d := (&world{TB: t, port: p}).open(cluster.Masters[0].Addr, enough, options)
		d.must("peek", fields{"customer": []byte("acme")}) // some join with their first call
		m.stores[name], drivers = remote{d: d}, append(drivers, d)
	}
	open("python", python(t, "cluster"), fields{})
	open("asyncio", python(t, "asyncio-cluster"), fields{})
	open("node", node(t, "ioredis-cluster"), fields{})
	open("small", node(t, "node-redis-cluster"), fields{"policy": vectors.Policy{Thresholds: []int64{-2, -4}, Interval: 1_500_000, Mode: "since_last_update"}})

	waits := int64(0)
	for name, store := range m.stores {
		if _, err := store.NextN(t.Context(), "", 1); err == nil {
			t.Errorf("%s: a customer without a name has a level", name)
		}
		for i := range 30 {
			m.next(name, fmt.Sprint("\xff customer ", i%3))
			ids := []string{fmt.Sprint(name, " ", i)}
			submitted, err := store.SubmitN(t.Context(), "acme", named.Documents(ids...))
			if err != nil {
				t.Fatal(err)
			}
			m.got.ByLoad[submitted[0].Level]++
			if i%2 == 0 {
				if _, err := store.DoneN(t.Context(), "acme", ids, 10*time.Millisecond); err != nil {
					t.Fatal(err)
				}
				waits++
			}
		}
	}
	m.awaitReports("the reports add up to what the callers got", func(got fleet.Totals, _ map[string]fleet.Report) bool {
		documents, ended := int64(0), int64(0)
		for _, n := range m.got.ByLoad {
			documents += n
		}
		for _, h := range got.Waits {
			ended += h.Count()
		}
		return maps.Equal(got.ByCount, m.got.ByCount) && maps.Equal(got.ByLoad, m.got.ByLoad) && ended == waits && got.Ended == waits && got.Submitted == documents &&
			got.Errors["invalid"] == int64(len(m.stores)) && len(got.Busiest) == 4 && got.Busiest[3].Customer[0] == '\xff' && got.Busiest[3].Documents == int64(10*len(m.stores))
	})

	admin, err := control.NewAdmin(m.client, nil)
	if err != nil {
		t.Fatal(err)
	}
	change := control.Change{By: "mary", Why: "a test"}
	if _, err := admin.SetOverride(t.Context(), "bolt", priority.Bounds{Earliest: 7}, time.Hour, change); err != nil {
		t.Fatal(err)
	}
	for name := range m.stores {
		want := priority.Level(7)
		if name == "small" {
			want = 3
		}
		if got := m.next(name, "bolt"); got.Level != want || got.RuleLevel == got.Level {
			t.Errorf("%s: with an override the level is %+v, want %d", name, got, want)
		}
	}
	m.awaitReports("overrides are reported", func(got fleet.Totals, _ map[string]fleet.Report) bool {
		return got.Overridden == int64(len(m.stores))
	})

	const policiesKey = "priority:{control}:policies"
	follow := func(what string, code control.Code, version int64) {
		m.Helper()
		m.awaitReports(what, func(_ fleet.Totals, reports map[string]fleet.Report) bool {
			for name, r := range reports {
				if name != "small" && (r.Following.Code != code || r.Following.Version != version) {
					return false
				}
			}
			return len(reports) == len(m.stores)
		})
	}
	m.onAll("SET", policiesKey, "junk")
	follow("they say that the policies are corrupt", control.Corrupt, 0)
	m.onAll("DEL", policiesKey)
	m.onAll("ACL", "SETUSER", "default", "resetkeys", "~priority:{fleet}:*")
	follow("they say that they may not read the policies", control.Refused, 0)
	m.onAll("ACL", "SETUSER", "default", "~*")

	five := priority.Policy{Thresholds: []int64{0, -1, -2, -3}, ResetInterval: time.Hour}
	version, err := admin.Apply(t.Context(), 0, priority.Policies{Policy: five}, change)
	if err != nil {
		t.Fatal(err)
	}
	m.awaitReports("all but the small one follow the policies and decide alike, and that one says why not", func(_ fleet.Totals, reports map[string]fleet.Report) bool {
		for name, r := range reports {
			if follows := name != "small"; r.Follows(version) != follows || (r.Digest == member.Report().Digest) != follows || time.Since(r.Written).Abs() > time.Minute {
				return false
			}
		}
		return len(reports) == len(m.stores) && reports["small"].Following.Code == control.Invalid && reports["small"].Following.Detail == "its queue has 3 levels, the policies 5"
	})
	for name := range m.stores {
		var levels []priority.Level
		for range 6 {
			levels = append(levels, m.next(name, "with the policies "+name).Level)
		}
		if want := []priority.Level{1, 2, 3, 4, 5, 5}; name != "small" && !slices.Equal(levels, want) {
			t.Errorf("with the policies %s decides %v, want %v", name, levels, want)
		}
	}

	m.onAll("DEL", policiesKey)
	follow("they keep what Redis has lost", control.Lost, version)
	reports, err := fleet.Read(t.Context(), m.client, "")
	if err != nil {
		t.Fatal(err)
	}
	lost := []string{"priority:{fleet}:members"}
	for _, r := range reports {
		lost = append(lost, "priority:{fleet}:"+r.ID)
	}
	if err := m.client.Del(t.Context(), lost...).Err(); err != nil {
		t.Fatal(err)
	}
	m.awaitReports("they report again, and that Redis was emptied", func(_ fleet.Totals, reports map[string]fleet.Report) bool {
		at, err := fleet.Emptied(t.Context(), m.client, "")
		return len(reports) == len(m.stores) && err == nil && !at.IsZero()
	})

	for _, d := range drivers {
		d.end()
	}
	if err := member.Close(t.Context()); err != nil {
		t.Error(err)
	}
	m.awaitReports("all have left", func(_ fleet.Totals, reports map[string]fleet.Report) bool { return len(reports) == 0 })
	m.checkHistory(waits)
}

// onAll sends a command to all masters. What one of them refuses is another one's.
func (m *members) onAll(command ...any) {
	m.Helper()
	if err := m.client.ForEachMaster(m.Context(), func(ctx context.Context, master *redis.Client) error {
		if err := master.Do(ctx, command...).Err(); err != nil && !strings.HasPrefix(err.Error(), "MOVED ") {
			return err
		}
		return nil
	}); err != nil {
		m.Fatal(err)
	}
}

// checkHistory checks that the history has what the callers of all members got.
func (m *members) checkHistory(ended int64) {
	m.Helper()
	slots, err := fleet.History(m.Context(), m.client, "")
	if err != nil {
		m.Fatal(err)
	}
	documents, want := make(map[priority.Level]int64), maps.Clone(m.got.ByCount)
	for level, n := range m.got.ByLoad {
		want[level] += n
	}
	for _, slot := range slots {
		for level, n := range slot.Documents {
			documents[level] += n
		}
		for _, h := range slot.Waits {
			ended -= h.Count()
		}
	}
	if !maps.Equal(documents, want) || ended != 0 {
		m.Errorf("the history has %v, not %v, and misses %d that ended", documents, want, ended)
	}
}

// next counts a document at a member.
func (m *members) next(name, customer string) priority.Decision {
	m.Helper()
	got, err := m.stores[name].NextN(m.Context(), customer, 1)
	if err != nil {
		m.Fatal(err)
	}
	m.got.ByCount[got[0].Level]++
	return got[0]
}

func (m *members) awaitReports(what string, condition func(totals fleet.Totals, byName map[string]fleet.Report) bool) {
	m.Helper()
	var reports []fleet.Report
	redistest.Await(m, what, func() bool {
		var err error
		reports, err = fleet.Read(m.Context(), m.client, "")
		byName := make(map[string]fleet.Report)
		for _, r := range reports {
			byName[r.Name] = r
		}
		return err == nil && condition(fleet.Add(reports), byName)
	})
}
