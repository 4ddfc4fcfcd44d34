package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/docpriority/priority"
	"github.com/redis/go-redis/v9"
)

// masters are the sizes of the clusters.
var masters = []int{1, 2, 3}

// measureCluster measures what more masters add. Masters on one CPU would add
// nothing, so it lets all run anywhere.
func measureCluster(ctx context.Context, b *bench) (r *report, err error) {
	err = b.unpinned(ctx, func(free *bench) error {
		r, err = free.measureCluster(ctx)
		return err
	})
	return r, err
}

func (b *bench) measureCluster(ctx context.Context) (*report, error) {
	names := customerNames(b.customers)
	clusters := make([][]*server, len(masters))
	defer func() {
		for _, server := range slices.Concat(clusters...) {
			server.stop()
		}
	}()
	for i, n := range masters {
		var err error
		if clusters[i], err = b.startCluster(ctx, n); err != nil {
			return nil, err
		}
	}
	var nextLaps, eachLaps []lap
	for _, servers := range clusters {
		if err := awaitWhole(ctx, servers); err != nil {
			return nil, err
		}
		client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{servers[0].addr}})
		defer client.Close()
		pipeliner, err := client.AutoPipeline()
		if err != nil {
			return nil, err
		}
		batched, err := storeDecide(pipeliner, &priority.RedisOptions{Timeout: -1})
		if err != nil {
			return nil, err
		}
		store, err := priority.NewRedisStore(client, &priority.RedisOptions{Timeout: patience})
		if err != nil {
			return nil, err
		}
		nextLaps = append(nextLaps, func(ctx context.Context) (float64, error) {
			return decideFor(ctx, b.lap, b.callers, names, batched)
		})
		eachLaps = append(eachLaps, func(ctx context.Context) (float64, error) {
			calls, err := callFor(ctx, b.lap, 1, func(ctx context.Context, i int) error {
				from := i * b.batch % len(names)
				_, err := store.NextEach(ctx, names[from:min(from+b.batch, len(names))])
				return err
			})
			return calls * float64(b.batch), err
		})
	}
	all, err := b.takeTurns(ctx, "cluster", append(nextLaps, eachLaps...))
	if err != nil {
		return nil, err
	}
	next, each := all[:len(masters)], all[len(masters):]
	g := grid{{"masters", "Next, batched", "1000/s", fmt.Sprintf("NextEach of %d", b.batch), "1000/s"}}
	for i, n := range masters {
		g = append(g, []string{
			strconv.Itoa(n), next[i].over(next[0]).String(), thousands(next[i]),
			each[i].over(each[0]).String(), thousands(each[i]),
		})
	}
	return &report{
		title: "cluster",
		notes: fmt.Sprintf(`Decisions a second on a Redis Cluster, to those on one master: medians of %d rounds, with the least and the most.
			Next by %d callers of the cluster client's AutoPipeliner (batched), NextEach by one caller. Nothing is pinned to a CPU here: masters and client share all of them,
			so that more masters can only add what the client leaves.`, b.rounds, b.callers),
		grids: []grid{g},
	}, nil
}

// startCluster starts a Redis Cluster of some masters with an equal share of the
// slots each, which takes some seconds more until it is whole. The caller stops the
// servers even if there is an error.
func (b *bench) startCluster(ctx context.Context, masters int) (servers []*server, err error) {
	for i := range masters {
		server, err := b.startServer(ctx, "--cluster-enabled", "yes")
		if err != nil {
			return servers, err
		}
		servers = append(servers, server)
		share := server.client.ClusterAddSlotsRange(ctx, i*slots/masters, (i+1)*slots/masters-1)
		if err := share.Err(); err != nil {
			return servers, err
		}
		if i > 0 {
			host, port, err := net.SplitHostPort(servers[0].addr)
			if err = errors.Join(err, server.client.ClusterMeet(ctx, host, port).Err()); err != nil {
				return servers, err
			}
		}
	}
	return servers, nil
}

const slots = 16384

// awaitWhole waits until every master knows every other and the owner of each slot.
func awaitWhole(ctx context.Context, servers []*server) error {
	for _, server := range servers {
		err := await(ctx, "the cluster is whole", func() bool {
			info := server.client.ClusterInfo(ctx).Val()
			return strings.Contains(info, "cluster_state:ok") &&
				strings.Contains(info, fmt.Sprintf("cluster_slots_assigned:%d\r", slots)) &&
				strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d\r", len(servers)))
		})
		if err != nil {
			return err
		}
	}
	return nil
}
