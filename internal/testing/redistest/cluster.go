package redistest

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

const slots = 16384

// Cluster is a Redis Cluster of masters with an equal share of the slots each.
type Cluster struct {
	Masters []*Server

	tb   testing.TB
	args []string
}

// StartCluster starts a cluster of some masters, with further command line
// arguments for each, and waits until every node says that it is whole.
func StartCluster(tb testing.TB, masters int, args ...string) *Cluster {
	tb.Helper()
	c := &Cluster{tb: tb}
	c.args = append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000"}, args...)
	for range masters {
		c.Masters = append(c.Masters, Start(tb, c.args...))
	}
	ctx := context.Background()
	for i, node := range c.Masters {
		client := node.Client()
		from, to := i*slots/masters, (i+1)*slots/masters-1
		if err := client.ClusterAddSlotsRange(ctx, from, to).Err(); err != nil {
			tb.Fatalf("CLUSTER ADDSLOTS: %v", err)
		}
		c.meet(node)
	}
	for _, node := range c.Masters {
		client := node.Client()
		Await(tb, "every slot has an owner", func() bool {
			info, err := client.ClusterInfo(ctx).Result()
			return err == nil && strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", slots))
		})
	}
	return c
}

// meet introduces a node to the first one.
func (c *Cluster) meet(node *Server) {
	c.tb.Helper()
	if node == c.Masters[0] {
		return
	}
	host, port, _ := net.SplitHostPort(c.Masters[0].Addr)
	if err := node.Client().ClusterMeet(context.Background(), host, port).Err(); err != nil {
		c.tb.Fatalf("CLUSTER MEET: %v", err)
	}
}

// MoveSlot moves the slot of a key from the master that the cluster began with to the next
// one, key by key, as an operator would. Between the keys it calls between.
func (c *Cluster) MoveSlot(key string, between func()) {
	c.tb.Helper()
	ctx := context.Background()
	slot := int(c.Masters[0].Client().ClusterKeySlot(ctx, key).Val())
	masters := len(c.Masters)
	owner := (slot*masters + masters - 1) / slots
	to := c.Masters[(owner+1)%masters]
	source, target := c.Masters[owner].Client(), to.Client()
	do := func(client *redis.Client, args ...any) {
		c.tb.Helper()
		if err := client.Do(ctx, args...).Err(); err != nil {
			c.tb.Fatalf("%v: %v", args, err)
		}
	}
	fromID, toID := source.Do(ctx, "cluster", "myid").Val(), target.Do(ctx, "cluster", "myid").Val()
	do(target, "cluster", "setslot", slot, "importing", fromID)
	do(source, "cluster", "setslot", slot, "migrating", toID)
	host, port, _ := net.SplitHostPort(to.Addr)
	for {
		between()
		keys, err := source.ClusterGetKeysInSlot(ctx, slot, 1).Result()
		if err != nil {
			c.tb.Fatalf("CLUSTER GETKEYSINSLOT: %v", err)
		}
		if len(keys) == 0 {
			break
		}
		do(source, "migrate", host, port, keys[0], 0, 5000)
	}
	for _, client := range []*redis.Client{target, source} {
		do(client, "cluster", "setslot", slot, "node", toID)
	}
}

// Client returns a cluster client, closed with the test.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs()})
	c.tb.Cleanup(func() { _ = client.Close() })
	return client
}

// Addrs returns the masters' addresses.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Masters))
	for i, node := range c.Masters {
		addrs[i] = node.Addr
	}
	return addrs
}
