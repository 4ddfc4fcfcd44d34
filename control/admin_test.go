package control_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/testing/markdown"
	"github.com/docpriority/priority/internal/testing/redistest"
	"github.com/docpriority/priority/lua"
)

// A change whose reply is lost is made once, and the error says that it may have been made.
// To workers, such an outage is one.
func TestApply_LostReply(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	w.apply(levels(1)) // the server knows the script
	for i, fault := range []redistest.Fault{redistest.Cut, redistest.Swallow} {
		proxy, said := redistest.StartProxy(t, w.server.Addr), new(changes)
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr, ReadTimeout: 100 * time.Millisecond})
		t.Cleanup(func() { _ = client.Close() })
		admin, store := newAdmin(t, client), newWorker(t, client, nil, control.Options{OnChange: said.note})
		check(t, store.Refresh(ctx))
		said.all = nil
		proxy.Set(fault)
		wantError(t, "Apply", errOf(admin.Apply(ctx, int64(i+1), levels(i+2), mary)), priority.ErrOutcomeUnknown)
		redistest.Await(t, "it is made", func() bool { return must(w.admin.Policies(ctx))(t).Version == int64(i+2) })
		for range 3 { // each connection has another port
			wantError(t, "Refresh", store.Refresh(ctx), errAny)
		}
		said.want(t, "no replies", int64(i+1), errAny)
	}
}

// What Redis refuses is not made, and the error says why.
func TestApply_Refused(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	w.apply(levels(3))
	before := w.client.Get(ctx, policiesKey).Val()
	refused := func(what string, admin *control.Admin, says string) {
		t.Helper()
		_, err := admin.Apply(ctx, control.AnyVersion, levels(2), mary)
		if err == nil || !strings.Contains(err.Error(), says) || errors.Is(err, priority.ErrOutcomeUnknown) {
			t.Errorf("%s: %v, not %s", what, err, says)
		}
		if w.client.Get(ctx, policiesKey).Val() != before || w.client.XLen(ctx, logKey).Val() > 1 {
			t.Errorf("%s: the policies are changed", what)
		}
	}
	check(t, w.client.ConfigSet(ctx, "maxmemory", "1").Err())
	refused("Redis is full", w.admin, "OOM")
	check(t, w.client.ConfigSet(ctx, "maxmemory", "0").Err())
	refused("no right", newAdmin(t, w.user("~*", "+@all", "-evalsha")), "NOPERM")
	check(t, w.client.Set(ctx, logKey, "x", 0).Err())
	refused("another kind of log", w.admin, "CORRUPT "+logKey+" is not a stream")
}

func TestAdmin_Invalid(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	long := strings.Repeat("x", 2000)
	set := func(customer string, bounds priority.Bounds, lasts time.Duration, by, why string) error {
		return errOf(w.admin.SetOverride(ctx, customer, bounds, lasts, control.Change{By: by, Why: why}))
	}
	many := priority.Policies{Tiers: make(map[string]priority.Policy)}
	for i := range 1000 {
		many.Tiers[fmt.Sprint(i, long)] = priority.Policy{}
	}
	for i, err := range []error{
		set(long[:513], pinned(5), time.Hour, "x", "x"), set("acme", priority.Bounds{}, time.Hour, "x", "x"), set("acme", pinned(256), time.Hour, "x", "x"),
		set("acme", pinned(5), time.Millisecond-1, "x", "x"), set("acme", pinned(5), control.MaxOverride+1, "x", "x"),
		set("acme", pinned(5), time.Hour, "", "x"), set("acme", pinned(5), time.Hour, long[:201], "x"), set("acme", pinned(5), time.Hour, "x", "\xff"),
		errOf(w.admin.EndOverride(ctx, "", mary)), errOf(w.admin.Forget(ctx, "acme", control.Change{By: "x"})), w.admin.Reset(ctx, "", mary),
		errOf(control.NewAdmin((*redis.Client)(nil), nil)), errOf(control.NewAdmin(w.client, &control.AdminOptions{Prefix: "a}b"})),
		errOf(control.Follow(w.client, w.store.RedisStore, &control.Options{Interval: 9 * time.Millisecond})), errOf(w.admin.Log(ctx, "", 10_001)),
		errOf(w.admin.Apply(ctx, control.AnyVersion, priority.Policies{Policy: priority.Policy{Thresholds: []int64{-2, -2}}}, mary)),
		errOf(w.admin.Apply(ctx, control.AnyVersion, many, mary)),
	} {
		wantError(t, fmt.Sprint("call ", i), err, priority.ErrInvalid)
	}
	if n := w.client.DBSize(ctx).Val(); n > 0 {
		t.Errorf("%d keys are there", n)
	}
	check(t, set(long[:512], pinned(255), time.Millisecond, long[:200], long[:1000]))
	check(t, set("acme", pinned(1), control.MaxOverride, "x", "x"))
}

// The documented rights suffice for all that an operator does, and so does a cluster.
func TestAdmin_RightsAndCluster(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	keys, commands := markdown.Read(t, "../docs/redis.md").Rights(t, "operator")
	for _, client := range []redis.UniversalClient{w.user(append(keys, commands...)...), redistest.StartCluster(t, 3).Client()} {
		admin := newAdmin(t, client)
		for _, customer := range []string{"acme", "bolt", "corp", "acme"} {
			must(admin.SetOverride(ctx, customer, pinned(5), time.Hour, mary))(t)
		}
		must(admin.EndOverride(ctx, "corp", mary))(t)
		must(admin.Apply(ctx, 0, levels(2), mary))(t)
		backup := must(admin.Export(ctx))(t)
		check(t, admin.Reset(ctx, "acme", mary))
		keys := must(admin.Forget(ctx, "acme", mary))(t)
		must(admin.Withdraw(ctx, 1, mary))(t)
		if got := must(admin.Import(ctx, backup, true, mary))(t); got != (control.Imported{Version: 3, Overrides: 2}) {
			t.Errorf("%+v", got)
		}
		all, log, history := must(admin.Overrides(ctx))(t), must(admin.Log(ctx, "", 100))(t), must(admin.History(ctx))(t)
		if keys != 1 || len(all) != 2 || len(log) != 11 || len(history) != 3 || history[1].Policies != nil {
			t.Errorf("%+v\n%+v\n%+v", all, log, history)
		}
	}
	redistest.WantNothingRefused(t, w.client)
}

// The log has who, what, why and when, for 90 days; an entry that cannot be read hides no
// other.
func TestLog(t *testing.T) {
	t.Parallel()
	w, ctx := start(t), t.Context()
	now := must(w.admin.Now(ctx))(t).Truncate(time.Millisecond)
	add := func(age time.Duration, values ...string) {
		t.Helper()
		check(t, w.client.XAdd(ctx, &redis.XAddArgs{Stream: logKey, ID: fmt.Sprint(now.Add(-age).UnixMilli()), Values: values}).Err())
	}
	for name, change := range map[string]func(){"override": func() { w.set("a}c", 5) }, "policies": func() { w.apply(levels(2)) }} {
		check(t, w.client.FlushAll(ctx).Err())
		add(control.LogAge+time.Minute, "kind", "reset", "why", "too old")
		add(control.LogAge-time.Minute, "kind", "reset", "why", "kept", "customer", "acme")
		corrupt := [][]string{{"a", "b"}, {"kind", "policies", "value", "x"}, {"kind", "override", "value", "=x"}, {"kind", "later"}}
		for i, values := range corrupt {
			add(time.Hour-time.Duration(i)*time.Minute, values...)
		}
		change()
		log := must(w.admin.Log(ctx, "", 100))(t)
		if len(log) != 6 || log[0].Kind != name || log[0].By != "mary" || log[0].At.Before(now) || log[5].Why != "kept" {
			t.Fatalf("%s: %+v", name, log)
		}
		for _, entry := range log[1:5] {
			if entry.Kind != "corrupt" || entry.Why == "" {
				t.Errorf("%s: %+v", name, entry)
			}
		}
		if part := must(w.admin.Log(ctx, log[2].ID, 3))(t); len(part) != 3 || part[0].ID != log[2].ID || part[2].ID != log[4].ID {
			t.Errorf("%s: from the third on: %+v", name, part)
		}
	}
	check(t, w.client.Eval(ctx, "for i = 1, 11000 do redis.call('XADD', KEYS[1], '*', 'kind', 'reset') end return 1", []string{logKey}).Err())
	w.set("acme", 5)
	if n, ttl := w.client.XLen(ctx, logKey).Val(), w.client.TTL(ctx, logKey).Val(); n < 10_000 || n > 10_200 || ttl.Round(time.Hour) != control.LogAge {
		t.Errorf("the log has %d entries, and ends in %v", n, ttl)
	}
	long := `{"policies":"` + strings.Repeat("x", 250_000) + `"}`
	for range 100 {
		check(t, w.client.Eval(ctx, lua.Policies, []string{policiesKey, logKey}, -1, 0, 0, control.LogAge.Milliseconds(), 10_000, "mary", "x", long).Err())
	}
	if n := w.client.XLen(ctx, logKey).Val(); n > 64 {
		t.Errorf("the log has %d entries of 250 KB", n)
	}
}
