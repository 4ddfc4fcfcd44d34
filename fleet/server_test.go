package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/redistest"
)

func TestReportsOfTwoMembersAddUp(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	one := join(t, server.Client(), &fleet.Options{Name: "one"})
	two := join(t, server.Client(), &fleet.Options{Name: "two"})
	must(one.NextN(ctx, "acme", 22))(t)
	must(one.Submit(ctx, "globex", "d1", 0))(t)
	must(two.NextEach(ctx, []string{"acme", "initech"}))(t)
	must(two.SubmitN(ctx, "globex", []string{"d2", "d3"}, nil))(t)
	must(two.DoneN(ctx, "globex", []string{"d1", "d2"}, 0))(t)

	reader := server.Client()
	await(t, "the reports have it", func() bool {
		reports := byName(t, reader)
		return len(reports) == 2 && reports["one"].Documents() == 23 && reports["two"].Waits[1].Count() == 2
	})
	total := fleet.Add(must(fleet.Read(ctx, reader, ""))(t))
	if want := (map[priority.Level]int64{1: 4, 2: 2, 3: 2, 4: 2, 5: 2, 6: 2, 7: 2, 8: 6, 9: 2}); !maps.Equal(total.ByCount, want) {
		t.Errorf("by count: %v, want %v", total.ByCount, want)
	}
	if total.Reports != 2 || total.Documents() != 27 || len(total.Waits) != 1 || total.Window <= 0 || total.Following[0] != 2 {
		t.Errorf("%+v", total)
	}
	if b := total.Busiest[0]; b.Customer != "acme" || b.Documents != 23 || b.Level != 9 || b.Rule != priority.ByCount {
		t.Errorf("the busiest: %+v", b)
	}
	check(t, one.Close(ctx))
	if reports := byName(t, reader); len(reports) != 1 || reports["two"].ID == "" {
		t.Errorf("after Close of one: %v", reports)
	}
}

// TestMain joins a fleet and does nothing more where a test has started it for that.
func TestMain(m *testing.M) {
	if addr := os.Getenv("FLEET_TEST_JOIN"); addr != "" {
		if _, err := fleet.Join(redis.NewClient(&redis.Options{Addr: addr}), &fleet.Options{Name: "another process"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		time.Sleep(time.Hour)
	}
	os.Exit(m.Run())
}

func TestAProcessThatIsKilledLeavesNothing(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	reader := server.Client()
	cmd := exec.Command(must(os.Executable())(t))
	cmd.Env = append(os.Environ(), "FLEET_TEST_JOIN="+server.Addr)
	wait := redistest.StartProgram(t, cmd)
	await(t, "it reports", func() bool { return byName(t, reader)["another process"].PID == cmd.Process.Pid })
	redistest.KillProgram(cmd)
	_ = wait()
	keys := must(reader.Keys(ctx, "*").Result())(t)
	if len(keys) != 2 || len(byName(t, reader)) != 1 {
		t.Errorf("after kill -9: %q", keys)
	}
	for _, key := range keys {
		ttl := must(reader.PTTL(ctx, key).Result())(t)
		if ttl <= 0 || ttl > 2*time.Minute || ttl > 30*time.Second && !strings.HasSuffix(key, ":members") {
			t.Errorf("%s ends in %v", key, ttl)
		}
		check(t, reader.PExpire(ctx, key, time.Millisecond).Err()) // the same, sooner
	}
	await(t, "it is gone", func() bool { return len(byName(t, reader)) == 0 && reader.DBSize(ctx).Val() == 0 })
}

// A client without any timeout of its own keeps nobody: neither callers nor Close.
func TestCloseOnAStoppedServerEndsWithItsContext(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: -1, WriteTimeout: -1})
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(server.Kill)
	member := must(fleet.Join(client, nil))(t)
	must(member.Submit(t.Context(), "acme", "d", 0))(t)
	await(t, "it reports", func() bool { return len(byName(t, server.Client())) == 1 })
	server.Signal(syscall.SIGSTOP)
	if d := must(member.Next(t.Context(), "acme"))(t); !d.Degraded {
		t.Errorf("%+v", d)
	}
	must(member.Done(t.Context(), "acme", "d", 0))(t)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if err := member.Close(ctx); err == nil {
			t.Error("Close says nothing of the Done that is owed")
		}
		cancel()
	}
}

// trips counts the round trips of a client.
type trips struct{ n atomic.Int64 }

func (t *trips) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (t *trips) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "hello" {
			t.n.Add(1)
		}
		return next(ctx, cmd)
	}
}

func (t *trips) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "eval" { // else it greets the server
			t.n.Add(1)
		}
		return next(ctx, cmds)
	}
}

func TestAThousandReportsAreTwoRoundTrips(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	const all = 1000
	writeReports(t, server.Client(), all)
	client, trips := server.Client(), new(trips)
	check(t, client.Ping(ctx).Err())
	client.AddHook(trips)
	began := time.Now()
	reports := must(fleet.Read(ctx, client, ""))(t)
	read := time.Since(began)
	total := fleet.Add(reports)
	t.Logf("read in %v, added up in %v", read, time.Since(began)-read)
	if n := trips.n.Load(); n != 2 {
		t.Errorf("%d round trips", n)
	}
	if total.Reports != all || total.Documents() != 300*all || len(total.Busiest) != 20 {
		t.Errorf("%d reports, %d documents, %d customers", total.Reports, total.Documents(), len(total.Busiest))
	}
}

// writeReports writes reports as large as busy processes write.
func writeReports(t *testing.T, client *redis.Client, n int) {
	t.Helper()
	r := fleet.Report{
		Name: "a worker", Language: "go", Version: "0.1.0", Host: "host", Levels: 9, Overrides: true, Window: time.Minute,
		ByLoad: make(map[priority.Level]int64), Waits: make(map[priority.Level]fleet.Histogram),
	}
	for level := range priority.Level(9) {
		h := make(fleet.Histogram)
		for bucket := range 20 {
			h[30+bucket] = int64(bucket)
		}
		r.ByLoad[level+1], r.Waits[level+1] = 300/9, h
	}
	r.ByLoad[1] += 300 % 9
	for i := range 20 {
		r.Busiest = append(r.Busiest, fleet.Busy{Customer: fmt.Sprint("customer ", i), Documents: 10, Rule: priority.ByLoad, Level: 4, Load: 100})
	}
	pipe := client.Pipeline()
	for i := range n {
		r.ID = fmt.Sprint("worker-", i)
		text := must(r.MarshalJSON())(t)
		pipe.Set(t.Context(), "priority:{fleet}:"+r.ID, text, 30*time.Second)
		end := must(client.Time(t.Context()).Result())(t).Add(30 * time.Second)
		pipe.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: float64(end.UnixMilli()), Member: r.ID})
	}
	must(pipe.Exec(t.Context()))(t)
}

func TestReadOnACluster(t *testing.T) {
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	join(t, client, &fleet.Options{Name: "one"})
	join(t, client, &fleet.Options{Name: "two"})
	await(t, "both report", func() bool { return len(byName(t, client)) == 2 })
}

// A replica that lags would say that nobody is there: reports are read on the master,
// wherever the client sends its reads.
func TestReadAsksNoReplica(t *testing.T) {
	cluster, ctx := redistest.StartCluster(t, 1), t.Context()
	replica := cluster.AddReplica(cluster.Masters[0])
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), RouteRandomly: true})
	t.Cleanup(func() { _ = client.Close() })
	_ = client.Get(ctx, "any").Err() // it knows the nodes
	writeReports(t, cluster.Masters[0].Client(), 3)
	for range 20 {
		if reports := must(fleet.Read(ctx, client, ""))(t); len(reports) != 3 || reports[0].Age > 20*time.Second {
			t.Errorf("%d reports", len(reports))
		}
	}
	if calls := redistest.Calls(t, replica.Client()); calls["mget"]+calls["pttl"]+calls["eval"] > 0 {
		t.Errorf("the replica was asked: %v", calls)
	}
}

// Whatever stands beside the reports hides none of them.
func TestJunkIsCountedAndHidesNothing(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	client := server.Client()
	if reports := must(fleet.Read(ctx, client, ""))(t); len(reports) != 0 {
		t.Errorf("of nobody: %v", reports)
	}
	writeReports(t, client, 3)
	check(t, client.LPush(ctx, "priority:{fleet}:list", "x").Err())
	check(t, client.Set(ctx, "priority:{fleet}:text", "hello", 0).Err())
	check(t, client.Set(ctx, "priority:{fleet}:later", `{"format":2,"id":"later"}`, 0).Err())
	check(t, client.Set(ctx, "priority:{fleet}:long", strings.Repeat("x", 1<<20), 0).Err())
	for _, id := range []string{"list", "text", "later", "long", "gone", "", "\x00}"} {
		check(t, client.ZAdd(ctx, "priority:{fleet}:members", redis.Z{Score: 1e300, Member: id}).Err())
	}
	reports := must(fleet.Read(ctx, client, ""))(t)
	if total := fleet.Add(reports); total.Reports != 3 || total.Unreadable != 3 || total.Documents() != 900 {
		t.Errorf("%d reports, %d unreadable, %d documents", total.Reports, total.Unreadable, total.Documents())
	}
	check(t, client.Set(ctx, "other:{fleet}:members", "x", 0).Err())
	if _, err := fleet.Read(ctx, client, "other"); err == nil || !strings.Contains(err.Error(), "other:{fleet}:members") {
		t.Errorf("of another kind of key: %v", err)
	}
}

func TestNilClient(t *testing.T) {
	for _, client := range []priority.RedisClient{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		_, joined := fleet.Join(client, nil)
		_, read := fleet.Read(t.Context(), client, "")
		_, made := control.New(client, nil)
		_, administered := control.NewAdmin(client, nil)
		for name, err := range map[string]error{"Join": joined, "Read": read, "control.New": made, "control.NewAdmin": administered} {
			if !errors.Is(err, priority.ErrInvalid) || !strings.Contains(err.Error(), "the client is nil") {
				t.Errorf("%s of a nil %T: %v", name, client, err)
			}
		}
	}
}
