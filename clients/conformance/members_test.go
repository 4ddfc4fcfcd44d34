package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
	"github.com/docpriority/priority/internal/vectors"
)

// Members in three languages report what their callers were told, go by what operators set,
// and are missed when they are gone.
func TestMembersOfThreeLanguagesTellOfThemselves(t *testing.T) {
	long(t)
	t.Run("single", func(t *testing.T) {
		t.Parallel() // it waits for reports most of the time
		server := redistest.Start(t)
		testMembers(t, server.Client(), server.Addr, self(t, "the module"), python(t, "redis"), python(t, "asyncio"), node(t, "node-redis"), node(t, "ioredis"))
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3)
		module := self(t, "the module")
		module.client = "cluster"
		testMembers(t, cluster.Client(), cluster.Masters[0].Addr, module,
			python(t, "cluster"), python(t, "asyncio-cluster"), node(t, "node-redis-cluster"), node(t, "ioredis-cluster"))
	})
}

// members are the processes of one fleet, and what their callers were told.
type members struct {
	*testing.T
	client  redis.UniversalClient
	url     string // as priorityctl takes it
	admin   *control.Admin
	program string             // priorityctl
	drivers map[string]*driver // by name
	told    fleet.Totals
}

func testMembers(t *testing.T, client redis.UniversalClient, addr string, ports ...port) {
	admin, err := control.NewAdmin(client, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := &members{T: t, client: client, url: "redis://" + addr, admin: admin, drivers: make(map[string]*driver)}
	if _, ok := client.(*redis.ClusterClient); ok {
		m.url = "redis+cluster://" + addr
	}
	m.buildTools()
	for i, p := range append(ports, ports[0]) {
		name, options := fmt.Sprint("worker-", i+1), fields{"join": true}
		if i == len(ports) { // its queue has three levels
			name, options = "small", fields{"join": true, "policy": vectors.Policy{Thresholds: []int64{-2, -4}, Interval: 1_500_000, Mode: "since_last_update"}}
		}
		options["as"] = name
		w := &world{TB: t, port: p}
		m.drivers[name] = w.open(addr, 5000, options)
		m.drivers[name].must("peek", fields{"customer": []byte("acme")}) // some join with their first call
	}
	m.awaitReports("all have joined", func(totals fleet.Totals, _ map[string]fleet.Report) bool { return totals.Reports == len(m.drivers) })

	m.work("documents")
	m.awaitTold()
	m.askTools()

	m.change(func(ctx context.Context, change control.Change) (int64, error) {
		return admin.SetOverride(ctx, "bolt", priority.Override{Earliest: 7}, time.Hour, change)
	})
	for name, d := range m.drivers {
		if got, want := m.next(d, "bolt"), min(7, m.lastOf(name)); got.Level != want || got.Ruled == 0 {
			t.Errorf("%s: with an override the level is %+v, want %d", name, got, want)
		}
	}
	m.awaitTold()

	five := priority.Policy{Thresholds: []int64{0, -1, -2, -3}, ResetInterval: time.Hour}
	version := m.change(func(ctx context.Context, change control.Change) (int64, error) {
		return admin.Apply(ctx, control.Rules{Policy: five}, change)
	})
	obeys := func(_ fleet.Totals, reports map[string]fleet.Report) bool {
		for name, r := range reports {
			if r.Follows(version) != (name != "small") {
				return false
			}
		}
		return len(reports) == len(m.drivers) && strings.Contains(reports["small"].Rules.Error, "its queue has 3 levels, the rules 5")
	}
	m.awaitReports("all but the small one follow the rules, and that one says why not", obeys)
	m.obey("by the rules")
	m.awaitTold()
	m.askTools()
	for _, worker := range m.priorityctl("workers", "-json") {
		if name := worker["name"]; worker["obeys"] != (name != "small") || name == "small" && worker["why"] != "its queue has 3 levels, the rules 5" {
			t.Errorf("priorityctl workers says %v", worker)
		}
	}

	// What is lost is missed, and the last known rules hold.
	backup, err := admin.Export(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.flush()
	m.awaitReports("all report again, and that the rules are lost", func(_ fleet.Totals, reports map[string]fleet.Report) bool {
		for name, r := range reports {
			if name != "small" && (r.Rules.Version != version || !strings.Contains(r.Rules.Error, fmt.Sprint("version ", version))) {
				return false
			}
		}
		return len(reports) == len(m.drivers)
	})
	for _, worker := range m.priorityctl("workers", "-json") {
		if worker["obeys"] != false || !strings.HasPrefix(worker["why"].(string), "Redis lost data: ") {
			t.Errorf("after the loss priorityctl workers says %v", worker)
		}
	}
	m.obey("by the rules that are lost")
	if _, err := admin.Import(t.Context(), backup, control.Change{By: "mary", Why: "after the loss"}); err != nil {
		t.Fatal(err)
	}
	settings, err := admin.Settings(t.Context())
	if err != nil || settings.Rules == nil {
		t.Fatal(settings, err)
	}
	version = settings.Rules.Version
	m.awaitReports("the rules are back", obeys)
	m.obey("by the rules again")
	if got := m.next(m.drivers["worker-1"], "bolt"); got.Ruled == 0 || got.Level != 7 {
		t.Errorf("after the import the level is %+v, want 7 by the override", got)
	}

	// Who is gone is missed within the reports' half minute, and who stood still comes back.
	still := m.drivers["worker-4"]
	if err := still.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	m.drivers["worker-2"].kill()
	m.awaitGone("worker-2", "worker-4")
	listed := m.priorityctl("workers", "-json")
	if len(listed) != len(m.drivers)-2 || slices.ContainsFunc(listed, func(w map[string]any) bool { return w["name"] == "worker-2" || w["name"] == "worker-4" }) {
		t.Errorf("priorityctl workers lists who is gone: %v", listed)
	}
	if err := still.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	m.awaitReports("who stood still is back", func(_ fleet.Totals, reports map[string]fleet.Report) bool {
		return reports["worker-4"].Follows(version)
	})
	delete(m.drivers, "worker-2")
	for _, d := range m.drivers {
		d.end()
	}
	m.awaitReports("all have left", func(totals fleet.Totals, _ map[string]fleet.Report) bool { return totals.Reports == 0 })
}

// work has each member decide by both rules, and end some of the documents.
func (m *members) work(what string) {
	for name, d := range m.drivers {
		for i := range 30 {
			m.next(d, fmt.Sprint(what, " by count of ", i%3))
			document := fmt.Sprintf("%s %s %d", what, name, i)
			f := fields{"customer": []byte("acme"), "documents": documents(document, document+" too")}
			m.note(&m.told.ByLoad, d.must("submit", f).Decisions...)
			if i%2 == 0 {
				f["took_ms"] = 10
				for _, e := range d.must("done", f).Ended {
					if m.told.Waits == nil {
						m.told.Waits = make(map[priority.Level]fleet.Histogram)
					}
					level := priority.Level(e.Level)
					if m.told.Waits[level] == nil {
						m.told.Waits[level] = make(fleet.Histogram)
					}
					m.told.Waits[level][0]++ // which bucket it is does not matter here
				}
			}
		}
	}
}

// buildTools builds what operators use.
func (m *members) buildTools() {
	m.Helper()
	m.program = filepath.Join(m.TempDir(), "priorityctl")
	if out, err := exec.Command("go", "build", "-o", m.program, "../../cmd/priorityctl").CombinedOutput(); err != nil {
		m.Fatalf("%v\n%s", err, out)
	}
}

// priorityctl returns what a command prints, in JSON in one line each.
func (m *members) priorityctl(args ...string) (lines []map[string]any) {
	m.Helper()
	cmd := exec.Command(m.program, append(args, "-redis", m.url)...)
	out, err := cmd.Output()
	if err != nil {
		m.Fatalf("priorityctl %q: %v", args, err)
	}
	for line := range bytes.Lines(out) {
		var fields map[string]any
		if err := json.Unmarshal(line, &fields); err != nil {
			m.Fatalf("priorityctl %q prints %.200q", args, line)
		}
		lines = append(lines, fields)
	}
	return lines
}

// askTools compares what operators read with what the callers were told, and with what
// Peek says of each customer.
func (m *members) askTools() {
	m.Helper()
	number := func(n any) int64 { f, _ := n.(float64); return int64(f) }
	byCount, byLoad := make(map[priority.Level]int64), make(map[priority.Level]int64)
	for _, entry := range m.priorityctl("top", "-once", "-json")[0]["levels"].([]any) {
		fields := entry.(map[string]any)
		level := priority.Level(number(fields["level"]))
		byCount[level], byLoad[level] = number(fields["by_count"]), number(fields["by_load"])
	}
	for level := range byCount {
		if byCount[level] != m.told.ByCount[level] || byLoad[level] != m.told.ByLoad[level] {
			m.Errorf("level %d: top says %d documents by count and %d by load; the callers were told %d and %d",
				level, byCount[level], byLoad[level], m.told.ByCount[level], m.told.ByLoad[level])
		}
	}
	for _, listed := range m.priorityctl("list", "-json") {
		state := m.drivers["worker-1"].must("peek", fields{"customer": []byte(listed["customer"].(string))}).State
		if number(listed["next_level"]) != state.NextLevel || strings.ReplaceAll(listed["rule"].(string), " ", "_") != state.Rule {
			m.Errorf("list says %v, and Peek %s", listed, asJSON(state))
		}
	}
}

// obey has each member that can count down a new customer's documents to level 5.
func (m *members) obey(what string) {
	m.Helper()
	for name, d := range m.drivers {
		if name == "small" {
			continue
		}
		var levels []int64
		for range 6 {
			levels = append(levels, m.next(d, what+" "+name).Level)
		}
		if want := []int64{1, 2, 3, 4, 5, 5}; !slices.Equal(levels, want) {
			m.Errorf("%s: %s decides %v, want %v", what, name, levels, want)
		}
	}
}

func (m *members) next(d *driver, customer string) decision {
	m.Helper()
	got := d.next(customer)
	m.note(&m.told.ByCount, got)
	return got
}

func (m *members) note(levels *map[priority.Level]int64, told ...decision) {
	if *levels == nil {
		*levels = make(map[priority.Level]int64)
	}
	for _, d := range told {
		(*levels)[priority.Level(d.Level)]++
		if d.Ruled > 0 {
			m.told.Overridden++
		}
	}
}

// lastOf returns the last level of a member's queue.
func (m *members) lastOf(name string) int64 {
	if name == "small" {
		return 3
	}
	return 9
}

// change makes a change as an operator, and returns its version.
func (m *members) change(make func(ctx context.Context, change control.Change) (int64, error)) int64 {
	m.Helper()
	version, err := make(m.Context(), control.Change{By: "mary", Why: "a test"})
	if err != nil {
		m.Fatal(err)
	}
	return version
}

// flush empties all servers.
func (m *members) flush() {
	m.Helper()
	flush := func(ctx context.Context, client *redis.Client) error { return client.FlushAll(ctx).Err() }
	var err error
	if cluster, ok := m.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(m.Context(), flush)
	} else {
		err = flush(m.Context(), m.client.(*redis.Client))
	}
	if err != nil {
		m.Fatal(err)
	}
}

// awaitTold waits until the reports add up to what the callers were told.
func (m *members) awaitTold() {
	m.Helper()
	waits := func(all map[priority.Level]fleet.Histogram) map[priority.Level]int64 {
		counts := make(map[priority.Level]int64)
		for level, h := range all {
			counts[level] = h.Count()
		}
		return counts
	}
	var got fleet.Totals
	defer func() {
		if m.Failed() {
			m.Logf("the reports say %v by count, %v by load, waits %v, %d overridden;\nthe callers were told %v, %v, %v, %d",
				got.ByCount, got.ByLoad, waits(got.Waits), got.Overridden, m.told.ByCount, m.told.ByLoad, waits(m.told.Waits), m.told.Overridden)
		}
	}()
	m.awaitReports("the reports add up to what the callers were told", func(totals fleet.Totals, _ map[string]fleet.Report) bool {
		got = totals
		return maps.Equal(got.ByCount, m.told.ByCount) && maps.Equal(got.ByLoad, m.told.ByLoad) &&
			maps.Equal(waits(got.Waits), waits(m.told.Waits)) && got.Overridden == m.told.Overridden
	})
}

func (m *members) awaitReports(what string, condition func(totals fleet.Totals, byName map[string]fleet.Report) bool) {
	m.Helper()
	var reports []fleet.Report
	held := false
	defer func() {
		if !held {
			for _, r := range reports {
				m.Logf("%s, %s: rules %+v, by count %v, by load %v", r.Name, r.Language, r.Rules, r.ByCount, r.ByLoad)
			}
		}
	}()
	redistest.Await(m, what, func() bool {
		var err error
		reports, err = fleet.Read(m.Context(), m.client, "")
		byName := make(map[string]fleet.Report)
		for _, r := range reports {
			if r.Err != nil {
				m.Fatalf("a report that cannot be read: %v", r.Err)
			}
			byName[r.Name] = r
		}
		held = err == nil && condition(fleet.Add(reports), byName)
		return held
	})
}

// awaitGone waits until members are missed: their reports end after half a minute.
func (m *members) awaitGone(names ...string) {
	m.Helper()
	began := time.Now()
	for ; ; time.Sleep(100 * time.Millisecond) {
		reports, err := fleet.Read(m.Context(), m.client, "")
		if err == nil && !slices.ContainsFunc(reports, func(r fleet.Report) bool { return slices.Contains(names, r.Name) }) {
			return
		}
		if time.Since(began) > time.Minute {
			m.Fatalf("after a minute there are still reports of %v", names)
		}
	}
}
