package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fleet"
	"github.com/docpriority/priority/internal/testing/redistest"
)

// A client without any timeout keeps neither callers nor Close.
func TestClose_ServerStopped(t *testing.T) {
	server := redistest.Start(t)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, ReadTimeout: -1, WriteTimeout: -1})
	t.Cleanup(func() { _ = client.Close() })
	t.Cleanup(server.Kill)
	member := must(fleet.Join(client, nil))(t)
	must(member.Submit(t.Context(), "acme", priority.Document{ID: "d"}))(t)
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

// Redis stands still for longer than a call, as in a fork, and then runs what it was sent. That must
// not make documents pending again that are done.
func TestSubmit_AfterItsDone(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	member := must(fleet.Join(server.Client(), nil))(t) // with the usual timeout
	t.Cleanup(func() { _ = member.Close(context.Background()) })
	for range 10 { // it learns Redis's time
		must(member.Submit(ctx, "acme", priority.Document{ID: "before"}))(t)
	}
	server.Signal(syscall.SIGSTOP)
	documents := make([]priority.Document, 1000)
	ids := make([]string, len(documents))
	for i := range documents {
		ids[i] = fmt.Sprint("d", i)
		documents[i].ID = ids[i]
	}
	for i, decision := range must(member.SubmitN(ctx, "acme", documents))(t) {
		if !decision.Degraded {
			t.Fatalf("document %d: %+v", i, decision)
		}
	}
	must(member.DoneN(ctx, "acme", ids, 0))(t)
	server.Signal(syscall.SIGCONT)
	await(t, "Redis decides again", func() bool { return !must(member.Next(ctx, "other"))(t).Degraded })
	if state := must(member.Peek(ctx, "acme"))(t); state.Pending != 1 {
		t.Errorf("%d are pending, of which 1 is not done", state.Pending)
	}
}

// trips counts a client's round trips.
type trips struct{ atomic.Int64 }

func (t *trips) Allow() error       { t.Add(1); return nil }
func (t *trips) ReportResult(error) {}

func TestRead_RoundTrips(t *testing.T) {
	server, ctx, trips := redistest.Start(t), t.Context(), new(trips)
	const all = 1000
	writeReports(t, server.Client(), all)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Limiter: trips})
	t.Cleanup(func() { _ = client.Close() })
	must(fleet.Read(ctx, client, ""))(t) // it connects
	trips.Store(0)
	total := fleet.Add(must(fleet.Read(ctx, client, ""))(t))
	if n := trips.Load(); n != 2 || total.Reports != all || total.Documents() != 300*all || len(total.Busiest) != 20 {
		t.Errorf("%d round trips, %d reports, %d documents, %d customers", n, total.Reports, total.Documents(), len(total.Busiest))
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
		pipe.Set(t.Context(), "priority:{fleet}:"+r.ID, text, time.Hour)
		end := must(client.Time(t.Context()).Result())(t).Add(time.Hour)
		pipe.ZAdd(t.Context(), "priority:{fleet}:members", redis.Z{Score: float64(end.UnixMilli()), Member: r.ID})
	}
	must(pipe.Exec(t.Context()))(t)
}

// Whatever stands beside the reports hides none of them.
func TestRead_Junk(t *testing.T) {
	server, ctx := redistest.Start(t), t.Context()
	client := server.Client()
	if reports := must(fleet.Read(ctx, client, ""))(t); len(reports) != 0 {
		t.Errorf("of no member: %v", reports)
	}
	writeReports(t, client, 3)
	check(t, client.LPush(ctx, "priority:{fleet}:list", "x").Err())
	check(t, client.Set(ctx, "priority:{fleet}:text", "hello", time.Hour).Err())
	check(t, client.Set(ctx, "priority:{fleet}:later", `{"format":2,"id":"later"}`, time.Hour).Err())
	check(t, client.Set(ctx, "priority:{fleet}:long", strings.Repeat("x", 1<<20), time.Hour).Err())
	for _, id := range []string{"list", "text", "later", "long", "gone", "", "\x00}"} {
		check(t, client.ZAdd(ctx, "priority:{fleet}:members", redis.Z{Score: 1e300, Member: id}).Err())
	}
	reports := must(fleet.Read(ctx, client, ""))(t)
	if total := fleet.Add(reports); total.Reports != 3 || total.Unreadable != 4 || total.Documents() != 900 {
		t.Errorf("%d reports, %d unreadable, %d documents", total.Reports, total.Unreadable, total.Documents())
	}
	check(t, client.Set(ctx, "other:{fleet}:members", "x", 0).Err())
	if _, err := fleet.Read(ctx, client, "other"); err == nil || !strings.Contains(err.Error(), "other:{fleet}:members") {
		t.Errorf("of another kind of key: %v", err)
	}
	for _, prefix := range []string{"a{b", "a}b"} {
		_, read := fleet.Read(ctx, client, prefix)
		_, emptied := fleet.Emptied(ctx, client, prefix)
		if !errors.Is(read, priority.ErrInvalid) || !errors.Is(emptied, priority.ErrInvalid) {
			t.Errorf("of the prefix %s: %v, %v", prefix, read, emptied)
		}
	}
}

func TestNilClient(t *testing.T) {
	for _, client := range []priority.RedisClient{nil, (*redis.Client)(nil)} {
		_, joined := fleet.Join(client, nil)
		_, read := fleet.Read(t.Context(), client, "")
		if !errors.Is(joined, priority.ErrInvalid) || !errors.Is(read, priority.ErrInvalid) {
			t.Errorf("a nil %T: %v, %v", client, joined, read)
		}
	}
}
