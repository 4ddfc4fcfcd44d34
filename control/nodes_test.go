package control_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/control"
	"github.com/docpriority/priority/internal/redistest"
)

// On a cluster whose client reads from replicas, all that control reads and writes goes to
// masters: a replica that lags shows no override that came and went, and no conflict.
func TestAClusterThatReadsFromReplicas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cluster := redistest.StartCluster(t, 2)
	var replicas []*redistest.Server
	for _, master := range cluster.Masters {
		replicas = append(replicas, cluster.AddReplica(master))
	}
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), RouteRandomly: true})
	t.Cleanup(func() { _ = client.Close() })
	_ = client.Get(ctx, "any").Err() // it knows the nodes
	admin, store := openAdmin(t, client, nil), openControl(t, client, nil, seldom)
	reads := func() (n int) {
		for _, replica := range replicas {
			calls := redistest.Calls(t, replica.Client())
			for _, name := range []string{"eval", "evalsha", "get", "hget", "hgetall", "lrange", "xrevrange"} {
				n += calls[name]
			}
		}
		return n
	}
	before := reads()
	policy := int64(0)
	for i := range 10 {
		customer := fmt.Sprint("customer ", i)
		version := must(admin.SetOverride(ctx, customer, pinned(4), time.Hour, demo(0)))(t)
		if held := must(admin.OverrideOf(ctx, customer))(t); held == nil || !held.InForce {
			t.Errorf("%+v", held)
		}
		must(admin.SetOverride(ctx, customer, pinned(5), time.Hour, demo(version)))(t)
		policy = must(admin.Apply(ctx, []control.Rules{strict(), only()}[i%2], demo(policy)))(t)
		check(t, store.Refresh(ctx))
		wantPolicy(t, customer, store, []int{3, 1}[i%2])
		if got := must(store.Next(ctx, customer))(t); got.Level != 5 {
			t.Errorf("%+v", got)
		}
	}
	all := must(admin.Overrides(ctx))(t)
	if len(all) != 10 || len(must(admin.History(ctx))(t)) != 10 || len(must(admin.Log(ctx, 0, 100))(t)) != 30 {
		t.Errorf("%d overrides", len(all))
	}
	for _, held := range all {
		if !held.InForce {
			t.Errorf("%+v", held)
		}
		must(admin.EndOverride(ctx, held.Customer, demo(held.Version)))(t)
	}
	if got := reads() - before; got > 0 {
		t.Errorf("replicas were asked %d times", got)
	}
}

// A Ring that takes a shard for down asks another one, which has nothing: that is no
// withdrawal. While it does not know yet, it is an error.
func TestARingWithAShardThatIsDown(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	one, two := redistest.Start(t), redistest.Start(t)
	ring := redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": one.Addr, "two": two.Addr}, HeartbeatFrequency: 50 * time.Millisecond, DialTimeout: time.Second,
	})
	t.Cleanup(func() { _ = ring.Close() })
	admin, store := openAdmin(t, ring, nil), openControl(t, ring, nil, seldom)
	must(admin.Apply(ctx, strict(), demo(0)))(t)
	for i := range 10 {
		must(admin.SetOverride(ctx, fmt.Sprint("customer ", i), pinned(4), time.Hour, demo(0)))(t)
	}
	check(t, store.Refresh(ctx))
	if all := must(admin.Overrides(ctx))(t); len(all) != 10 || !all[0].InForce || !all[9].InForce {
		t.Errorf("%+v", all)
	}
	down := one
	if one.Client().Exists(ctx, rulesKey).Val() == 0 {
		down = two
	}
	down.Kill()
	await(t, "the ring asks the other shard", func() bool { return errors.Is(store.Refresh(ctx), control.ErrLost) })
	wantPolicy(t, "a shard is down", store, 3)
	if status := store.Status(); status.Version != 1 || status.Rules == nil {
		t.Errorf("%+v", status)
	}
}

// A failover to a replica that lacks changes, and to whose address clients connect.
func TestAFailoverThatLosesChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	ctx := t.Context()
	replica := redistest.StartReplica(t, w.server)
	var addr atomic.Value
	addr.Store(w.server.Addr)
	client := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, addr.Load().(string))
	}})
	t.Cleanup(func() { _ = client.Close() })
	store, admin := openControl(t, client, nil, seldom), openAdmin(t, client, nil)
	must(admin.Apply(ctx, strict(), demo(0)))(t)
	must(admin.SetOverride(ctx, "acme", pinned(4), time.Hour, demo(0)))(t)
	await(t, "the replica has it", func() bool {
		return strings.HasPrefix(replica.Client().Get(ctx, versionKey).Val(), "2 ") && replica.Client().Exists(ctx, w.own.Keys("acme").Override).Val() == 1
	})
	check(t, replica.Client().Do(ctx, "REPLICAOF", "no", "one").Err())
	must(admin.Apply(ctx, only(), demo(1)))(t)
	check(t, store.Refresh(ctx))
	addr.Store(replica.Addr)
	w.server.Kill()
	await(t, "the worker says what is lost", func() bool { return errors.Is(store.Refresh(ctx), control.ErrLost) })
	wantPolicy(t, "after the failover", store, 1)
	w.wantLevel(store, "acme", 4, 1)
	settings := must(admin.Settings(ctx))(t)
	if settings.Version != 2 || settings.Rules.Version != 1 {
		t.Errorf("%+v", settings)
	}
	// the next change has the version of the one that was lost, and is another one
	version := must(admin.Apply(ctx, control.Rules{Policy: priority.Policy{Thresholds: []int64{-1}}}, demo(1)))(t)
	check(t, store.Refresh(ctx))
	if wantPolicy(t, "after the next change", store, 2); version != 3 {
		t.Errorf("version %d", version)
	}
}
