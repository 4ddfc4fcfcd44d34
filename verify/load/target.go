package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docpriority/priority"
	"github.com/docpriority/priority/fallback"
	"github.com/docpriority/priority/internal/ledger"
	"github.com/docpriority/priority/observe"
	"github.com/redis/go-redis/v9"
)

// target is the store under load and what it stands on.
type target struct {
	store  priority.Store
	end    func(context.Context) error // of the fallback, if there is one
	server server
	name   string // of its connections, as the server knows them

	redisStore *priority.RedisStore
	client     redis.UniversalClient
}

// open makes a client and a store. It sends nothing.
func open(cfg config, book *ledger.Ledger) (*target, error) {
	server, err := cfg.server()
	if err != nil {
		return nil, err
	}
	t := &target{server: server, name: cfg.prefix, client: server.connect(cfg.prefix)}
	if err := t.openStore(cfg, book); err != nil {
		return nil, errors.Join(err, t.client.Close())
	}
	return t, nil
}

// openStore makes the store with its wrappers.
func (t *target) openStore(cfg config, book *ledger.Ledger) (err error) {
	if t.redisStore, err = t.openRedisStore(cfg); err != nil {
		return err
	}
	t.store = t.redisStore
	if cfg.fallback {
		store, err := fallback.New(observe.New(t.store, book.Primary), nil, nil)
		if err != nil {
			return err
		}
		t.store, t.end = store, store.Close
	}
	return nil
}

// finish has the fallback send its Dones to Redis.
func (t *target) finish(ctx context.Context, grace time.Duration) error {
	if t.end == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	return t.end(ctx)
}

func (t *target) openRedisStore(cfg config) (*priority.RedisStore, error) {
	var client priority.RedisClient = t.client
	if cfg.autopipeline {
		pipeliner, err := t.client.AutoPipeline()
		if err != nil {
			return nil, fmt.Errorf("start the automatic pipeline: %w", err)
		}
		client = pipeliner
	}
	return priority.NewRedisStore(client, &priority.RedisOptions{
		Prefix:  cfg.prefix,
		Timeout: cfg.timeout,
		// A count that starts afresh while the load runs cannot be reconciled.
		Policy: priority.Policy{ResetInterval: (cfg.duration + time.Hour).Round(time.Millisecond)},
	})
}

// pipelined is how many keys are read or removed in one round trip.
const pipelined = 1000

// counts reads the customers' counts.
func (t *target) counts(ctx context.Context, customers []string) (map[string]int64, error) {
	counts := make(map[string]int64, len(customers))
	for part := range slices.Chunk(customers, pipelined) {
		pipe := t.client.Pipeline()
		held := make([]*redis.StringCmd, len(part))
		for i, customer := range part {
			held[i] = pipe.Get(ctx, t.redisStore.Key(customer))
		}
		_, _ = pipe.Exec(ctx) // each command has its own error
		for i, customer := range part {
			count, err := held[i].Int64()
			if errors.Is(err, redis.Nil) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("read the count of %s: %w", customer, err)
			}
			counts[customer] = count
		}
	}
	return counts, nil
}

// remove removes the customers' keys.
func (t *target) remove(ctx context.Context, customers []string) error {
	for part := range slices.Chunk(customers, pipelined) {
		pipe := t.client.Pipeline()
		for _, customer := range part {
			pipe.Unlink(ctx, t.redisStore.Key(customer), t.redisStore.PendingKey(customer), t.redisStore.UsageKey(customer))
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return fmt.Errorf("remove the keys: %w", err)
		}
	}
	return nil
}

// connections returns how many connections the client has, and how many of them
// no call is using.
func (t *target) connections() (all, idle int) {
	stats := t.client.PoolStats()
	all, idle = int(stats.TotalConns), int(stats.IdleConns)
	if pipeline := stats.PipelineStats; pipeline != nil {
		all += int(pipeline.TotalConns)
		idle += int(pipeline.IdleConns)
	}
	return all, idle
}

// left returns how many connections of the target the server still has. It asks
// through a client of its own, for that of the target is closed by then.
func (t *target) left(ctx context.Context) (int, error) {
	client := t.server.connect("")
	defer client.Close()
	var left atomic.Int64
	ask := func(ctx context.Context, node *redis.Client) error {
		list, err := node.ClientList(ctx).Result()
		if err != nil {
			return fmt.Errorf("list the server's connections: %w", err)
		}
		left.Add(int64(strings.Count(list, " name="+t.name+" ")))
		return nil
	}
	var err error
	switch client := client.(type) {
	case *redis.ClusterClient:
		err = client.ForEachMaster(ctx, ask)
	case *redis.Client:
		err = ask(ctx, client)
	}
	return int(left.Load()), err
}

// server is how to reach a server.
type server struct {
	addr    string // for messages
	connect func(clientName string) redis.UniversalClient
}

// server reads the address.
func (c config) server() (server, error) {
	isURL := strings.Contains(c.redis, "://")
	if c.cluster {
		opts := &redis.ClusterOptions{Addrs: []string{c.redis}}
		if isURL {
			var err error
			if opts, err = redis.ParseClusterURL(c.redis); err != nil {
				return server{}, fmt.Errorf("-redis: %w", err)
			}
		}
		for _, addr := range opts.Addrs {
			if err := isLoopback(addr); err != nil {
				return server{}, err
			}
		}
		opts.Dialer = dialer(&redis.Options{TLSConfig: opts.TLSConfig, DialTimeout: opts.DialTimeout})
		return server{strings.Join(opts.Addrs, " "), func(name string) redis.UniversalClient {
			named := *opts
			named.ClientName = name
			return redis.NewClusterClient(&named)
		}}, nil
	}

	opts := &redis.Options{Addr: c.redis}
	if isURL {
		var err error
		if opts, err = redis.ParseURL(c.redis); err != nil {
			return server{}, fmt.Errorf("-redis: %w", err)
		}
	}
	if err := isLoopback(opts.Addr); err != nil {
		return server{}, err
	}
	opts.Dialer = dialer(&redis.Options{TLSConfig: opts.TLSConfig, DialTimeout: opts.DialTimeout})
	return server{opts.Addr, func(name string) redis.UniversalClient {
		named := *opts
		named.ClientName = name
		return redis.NewClient(&named)
	}}, nil
}

// dialer dials loopback addresses only, wherever a server of a cluster points.
func dialer(opts *redis.Options) func(context.Context, string, string) (net.Conn, error) {
	if opts.DialTimeout == 0 {
		opts.DialTimeout = 5 * time.Second
	}
	dial := redis.NewDialer(opts)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if err := isLoopback(addr); err != nil {
			return nil, err
		}
		return dial(ctx, network, addr)
	}
}

// isLoopback returns an error unless the address is one of this machine's own.
// The load takes all that a server can give, which nobody else may need.
func isLoopback(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("the address %q is not host:port: %w", addr, err)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("%s is not a loopback address: the load is for servers of this machine only", addr)
	}
	return nil
}
