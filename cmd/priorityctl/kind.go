package main

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docpriority/priority/cmd/priorityctl/internal/redisurl"
	"github.com/docpriority/priority/internal/insight"
	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// recognize checks that the server is what the URL says: a node of a cluster would
// answer for its share of the customers, as if there were no others. It also finds
// out whether the server is a replica.
func (c *connection) recognize(ctx context.Context, target *redisurl.Target) error {
	server, ok := c.Client.(*redis.Client)
	if !ok || target.Kind != insight.SingleServer {
		return nil // go-redis has asked whether it is one
	}
	told := hello(ctx, server)
	if told["role"] == "replica" && told["mode"] != "cluster" {
		c.replica = "a replica"
		if role, err := server.Do(ctx, "ROLE").Slice(); err == nil && len(role) > 2 {
			c.replica += fmt.Sprintf(" of %s", net.JoinHostPort(fmt.Sprint(role[1]), fmt.Sprint(role[2])))
		}
	}
	return mistaken(ctx, target, server, told)
}

// misnamed returns an error if Redis cannot be reached because the URL names
// another kind of server.
func misnamed(ctx context.Context, target *redisurl.Target, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	servers := target.Servers(timeout)
	told := make([]map[string]string, len(servers))
	var asking sync.WaitGroup
	for i, server := range servers {
		context.AfterFunc(ctx, func() { _ = server.Close() }) // go-redis reads on when a context is canceled
		asking.Go(func() { told[i] = hello(ctx, server) })
	}
	asking.Wait()
	for i, server := range servers {
		if len(told[i]) > 0 {
			return mistaken(ctx, target, server, told[i])
		}
	}
	return nil
}

// mistaken says which URL to use if a server is of another kind than the URL says.
func mistaken(ctx context.Context, target *redisurl.Target, server *redis.Client, told map[string]string) error {
	mode := told["mode"]
	switch {
	case mode == "cluster" && target.Kind != insight.Cluster:
		return usageError("%s is a node of a cluster, and has only its share of the customers: ask the whole cluster by %s",
			target, target.As(insight.Cluster, ""))
	case mode == "standalone" && target.Kind != insight.SingleServer:
		return usageError("%s is a server of its own, no %s: ask it by %s", target, noun(target.Kind), target.As(insight.SingleServer, ""))
	case mode == "sentinel":
		return mistakenSentinel(ctx, target, server)
	}
	return nil
}

// mistakenSentinel says which URL to use for a sentinel, unless it knows the
// master.
func mistakenSentinel(ctx context.Context, target *redisurl.Target, server *redis.Client) error {
	var masters []string
	replies, _ := server.Do(ctx, "SENTINEL", "MASTERS").Slice()
	for _, reply := range replies {
		masters = append(masters, fields(reply)["name"])
	}
	slices.Sort(masters)
	example := "MASTER" // if the user may not ask the sentinel
	if len(masters) > 0 {
		example = masters[0]
	}
	ask := target.As(insight.Sentinel, example)
	if len(masters) > 1 {
		ask += " (it knows " + strings.Join(masters, ", ") + ")"
	}
	switch {
	case target.Kind != insight.Sentinel:
		return usageError("%s is a sentinel, which has no customers: ask for its master by %s", target, ask)
	case len(masters) > 0 && !slices.Contains(masters, target.Master()):
		return usageError("%s: the sentinel knows no master %q: ask by %s", target, target.Master(), ask)
	}
	return nil
}

func noun(kind insight.Kind) string {
	if kind == insight.Sentinel {
		return "sentinel"
	}
	return "cluster"
}

// hello returns what a server says about itself: its mode and its role. Every user
// may ask with HELLO; on a server without HELLO, users with the right ask with
// INFO. It is empty if the server says nothing.
func hello(ctx context.Context, server *redis.Client) map[string]string {
	reply, err := server.Do(ctx, "HELLO").Result()
	if err == nil {
		return fields(reply)
	}
	info := make(map[string]string)
	for _, section := range []string{"server", "replication"} {
		text, err := server.Info(ctx, section).Result()
		if err != nil {
			return nil
		}
		for line := range strings.Lines(text) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			info[name] = value
		}
	}
	told := map[string]string{"mode": info["redis_mode"], "role": info["role"]}
	if told["role"] == "slave" {
		told["role"] = "replica"
	}
	return told
}

// fields reads a reply of names and values, by either protocol of Redis.
func fields(reply any) map[string]string {
	all := make(map[string]string)
	switch reply := reply.(type) {
	case map[any]any:
		for name, value := range reply {
			all[fmt.Sprint(name)] = fmt.Sprint(value)
		}
	case []any:
		for pair := range slices.Chunk(reply, 2) {
			all[fmt.Sprint(pair[0])] = fmt.Sprint(pair[len(pair)-1])
		}
	}
	return all
}

// mayChange refuses changes on a replica, and warns commands that only read that it
// may be behind.
func (c *connection) mayChange(command *cobra.Command) error {
	if c.replica == "" {
		return nil
	}
	if command.Flags().Lookup("why") != nil {
		return usageError("%s is %s, where nothing can be changed: name the master", c.Server.Address, c.replica)
	}
	fmt.Fprintf(command.ErrOrStderr(), "priorityctl: %s is %s: it may be behind its master\n", c.Server.Address, c.replica)
	return nil
}
