package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/docpriority/priority/internal/redistest"
)

// Site is a master and its replica, to which faults are done. Every write is on disk before
// it is answered, and no failover loses a write, so that no fault excuses a wrong count.
type Site struct {
	tb      testing.TB
	master  atomic.Pointer[redistest.Server]
	replica *redistest.Server // only the goroutine of the faults uses it
}

// StartSite starts the servers.
func StartSite(tb testing.TB) *Site {
	tb.Helper()
	durable := []string{"--appendonly", "yes", "--appendfsync", "always"}
	s := &Site{tb: tb}
	master := redistest.Start(tb, durable...)
	s.master.Store(master)
	s.replica = redistest.StartReplica(tb, master, durable...)
	return s
}

// dial connects to the present master, whatever the address.
func (s *Site) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, s.master.Load().Addr)
}

// addrs returns the addresses of both servers.
func (s *Site) addrs() []string { return []string{s.master.Load().Addr, s.replica.Addr} }

// fault is something that happens to the master. It is over when do returns; lasts is how
// long the part of it takes that has no end of its own.
type fault struct {
	name string
	do   func(s *Site, lasts time.Duration)
}

var faults = []fault{
	{"killed", (*Site).kill},
	{"stopped", (*Site).stop},
	{"filled", (*Site).fill},
	{"failed over", (*Site).failOver},
	{"connections killed", func(s *Site, _ time.Duration) { s.master.Load().KillClients() }},
	{"scripts forgotten", func(s *Site, _ time.Duration) {
		s.command(func(ctx context.Context, client *redis.Client) error { return client.ScriptFlush(ctx).Err() })
	}},
}

// disturb does the faults round after round, each round in another order, until the context
// ends or, unless rounds is 0, there were as many. It notes how often each was done.
func (s *Site) disturb(ctx context.Context, rounds int, calm time.Duration, done map[string]int) {
	for round := 0; rounds == 0 || round < rounds; round++ {
		for _, at := range rand.Perm(len(faults)) {
			if !rest(ctx, calm/2+rand.N(calm)) {
				return
			}
			faults[at].do(s, calm/4+rand.N(calm/2))
			done[faults[at].name]++
		}
	}
}

// command sends something to the master.
func (s *Site) command(send func(ctx context.Context, client *redis.Client) error) {
	s.tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.master.Load().Addr})
	defer client.Close()
	if err := send(context.Background(), client); err != nil {
		s.tb.Fatal(err)
	}
}

// awaitInfo waits until a section of a server's INFO has a line.
func awaitInfo(tb testing.TB, server *redistest.Server, section, line string) {
	tb.Helper()
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	defer client.Close()
	redistest.Await(tb, line, func() bool {
		info, err := client.Info(context.Background(), section).Result()
		return err == nil && strings.Contains(info, line+"\r\n")
	})
}

// kill ends the master as a crash would, and starts it again later.
func (s *Site) kill(lasts time.Duration) {
	master := s.master.Load()
	// While a replica's copy is being written to disk, what it acknowledges is not there yet.
	awaitInfo(s.tb, master, "persistence", "aof_rewrite_scheduled:0")
	awaitInfo(s.tb, master, "persistence", "aof_rewrite_in_progress:0")
	master.Kill()
	time.Sleep(lasts)
	master.Launch("--replicaof", "no", "one") // it may have been started as a replica
	master.AwaitUp()
	awaitInfo(s.tb, master, "persistence", "loading:0")
}

// stop has the master stand still for some time.
func (s *Site) stop(lasts time.Duration) {
	master := s.master.Load()
	master.Signal(syscall.SIGSTOP)
	time.Sleep(lasts)
	master.Signal(syscall.SIGCONT)
}

// fill has the master refuse writes for some time, as its memory is full.
func (s *Site) fill(lasts time.Duration) {
	limit := func(bytes string) {
		s.command(func(ctx context.Context, client *redis.Client) error {
			return client.ConfigSet(ctx, "maxmemory", bytes).Err()
		})
	}
	limit("1")
	time.Sleep(lasts)
	limit("0")
}

// failOver makes the replica the master when it has every write, as an operator would.
func (s *Site) failOver(time.Duration) {
	old := s.master.Load()
	awaitInfo(s.tb, s.replica, "replication", "master_link_status:up")
	host, port, _ := net.SplitHostPort(s.replica.Addr)
	s.command(func(ctx context.Context, client *redis.Client) error {
		redistest.Await(s.tb, fmt.Sprintf("%s lets %s take its place", old.Addr, s.replica.Addr), func() bool {
			return client.Do(ctx, "failover", "to", host, port).Err() == nil
		})
		return nil
	})
	awaitInfo(s.tb, s.replica, "replication", "role:master")
	s.master.Store(s.replica)
	s.replica = old
	awaitInfo(s.tb, old, "replication", "role:slave")
}
